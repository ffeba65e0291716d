package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// disk is what is on a volume: a layer of its own over those that it shares with what it
// was cloned from, as in a linked clone.
type disk struct {
	h *Hypervisor

	mu    sync.Mutex
	top   *layer
	used  bool  // by a machine that runs
	wrong error // it cannot be used
}

// layer is a file of a disk. Only one disk writes to it, and none if others are based on it.
type layer struct {
	path   string
	format string
	size   int64  // bytes, as a guest sees it
	below  *layer // nil: blank
	made   bool   // the file is there
}

// Clone returns a disk with the same contents.
func (d *disk) Clone() pvesim.Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &disk{h: d.h, wrong: d.wrong}
	if d.used {
		out.wrong = errors.New("the disk was cloned while a machine used it, which real guests' disks cannot be")
	}
	if d.top.made {
		d.top = d.h.layer(d.top)
	}
	out.top = d.h.layer(d.top.below)
	return out
}

// Forget removes the disk's own layer, unless others are based on it.
func (d *disk) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.top.made {
		_ = os.Remove(d.top.path)
	}
	d.wrong = errors.New("the volume is gone")
}

// use returns the disk's file, creates it if it is missing, grows it to size, and locks it
// until it is released.
func (d *disk) use(ctx context.Context, size int64) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.wrong != nil:
		return "", d.wrong
	case d.used:
		return "", errors.New("the disk is used by another machine")
	}
	t := d.top
	if !t.made {
		args := []string{"create", "-q", "-f", t.format}
		if t.below != nil {
			args = append(args, "-b", t.below.path, "-F", t.below.format)
			size = max(size, t.below.size)
		}
		if err := image(ctx, append(args, t.path, strconv.FormatInt(size, 10))...); err != nil {
			return "", err
		}
		t.made, t.size = true, size
	}
	if size > t.size {
		if err := image(ctx, "resize", "-q", "-f", t.format, t.path, strconv.FormatInt(size, 10)); err != nil {
			return "", err
		}
		t.size = size
	}
	d.used = true
	return t.path, nil
}

// recordSize records that a machine has grown its disk.
func (d *disk) recordSize(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.top.size = max(d.top.size, size)
}

func (d *disk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = false
}

// image runs qemu-img.
func image(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "qemu-img", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("qemu-img %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
