package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// setAsRoot sets config keys of a VM that no token may set.
func (c *VMClient) setAsRoot(ctx context.Context, vm *VM, p api.Params) error {
	if !c.pve.HasLogin() {
		return rootError(vm, p)
	}
	form := url.Values{}
	for k, v := range p {
		form.Set(k, fmt.Sprint(v))
	}
	err := c.pve.PutAsRoot(ctx, api.VMPath(vm.Host, vm.VMID, "config"), form)
	if errors.Is(err, api.ErrSecondFactor) {
		_, command := byHand(vm, p)
		return fmt.Errorf("%w\n  run on %s: %s; or leave the option out", err, vm.Host, command)
	}
	return err
}

// rootError says what a token cannot do, and gives two ways to do it.
func rootError(vm *VM, p api.Params) error {
	keys, command := byHand(vm, p)
	return fmt.Errorf("proxmox: %s of %s: only root@pam itself may set this, not a token\n"+
		"  write user: root@pam below proxmox: in the file, with password: or without it to be asked; or run on %s: %s",
		strings.Join(keys, " and "), vm, vm.Host, command)
}

// byHand returns the keys to set, and the command that root types to set them on a VM.
func byHand(vm *VM, p api.Params) (keys []string, command string) {
	var options []string
	for k, v := range p {
		switch {
		case rootKey(k):
			keys, options = append(keys, k), append(options, "--"+k+" "+printable.Word(v))
		case k == "delete":
			keys, options = append(keys, fmt.Sprint(v)), append(options, "--delete "+printable.Word(v))
		}
	}
	return keys, fmt.Sprintf("qm set %d %s", vm.VMID, strings.Join(options, " "))
}
