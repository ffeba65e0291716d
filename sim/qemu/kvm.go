package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// kvmTime is how long a kernel may take to find no system. Where KVM works it takes a second.
const kvmTime = 20 * time.Second

// KVM returns nil where guests need not be emulated, or why they must be. In a virtual
// machine, an accessible /dev/kvm proves little, so this boots the image's kernel without a
// system, which ends at once.
func KVM(ctx context.Context, i Image) error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_ = f.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, kvmTime, errors.New("a kernel does not boot with KVM within "+kvmTime.String()))
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512", "-kernel", i.Kernel, "-append", "panic=-1")
	said := &complaint{end: cancel}
	cmd.Stderr = said
	dieWithUs(cmd)
	err = cmd.Run()
	switch text := strings.TrimSpace(said.text.String()); {
	case err == nil:
		return nil
	case text != "":
		first, _, _ := strings.Cut(text, "\n")
		return fmt.Errorf("QEMU with KVM: %s", first)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("QEMU with KVM: %w", err)
}

// complaint ends what stands still: after an internal error of KVM, QEMU only waits.
type complaint struct {
	text bytes.Buffer
	end  func()
}

func (c *complaint) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("KVM")) {
		c.end()
	}
	return c.text.Write(p)
}
