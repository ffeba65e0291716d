package harvestervms

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// HostKeys returns the host keys of a machine: those that its VM carries or, before its first boot is over, those that it
// has written to its console. Both come over Harvester's API.
func HostKeys(client *harvester.Client) func(ctx context.Context, machine string) ([]ssh.PublicKey, error) {
	return func(ctx context.Context, machine string) ([]ssh.PublicKey, error) {
		vm, err := client.Get(ctx, machine)
		switch {
		case err != nil:
			return nil, err
		case vm == nil:
			return nil, fmt.Errorf("there is no VM %s", machine)
		case !client.Owns(vm):
			return nil, fmt.Errorf("%s is not of this cluster", vm)
		case len(vm.KnownHostKeys()) > 0:
			return parseKeys(vm, vm.KnownHostKeys())
		}
		lines, err := consoleKeys(ctx, client, vm)
		if err != nil {
			return nil, err
		}
		return parseKeys(vm, lines)
	}
}

// KeysStep puts the host keys that a machine has written to its console onto its VM: the console forgets them.
func (vs *VMs) KeysStep(n spec.Node) *converge.Resource[*harvester.VM] {
	return &converge.Resource[*harvester.VM]{
		ID:      "hostkeys/" + n.Name,
		Observe: func(ctx context.Context) (*harvester.VM, error) { return vs.Client.Get(ctx, n.Name) },
		Diff: func(vm *harvester.VM) converge.Diff {
			if vm == nil || len(vm.KnownHostKeys()) == 0 {
				return converge.Diff{{Want: "its SSH host keys noted on its VM", Effect: converge.Create}}
			}
			return nil
		},
		Apply: func(ctx context.Context, vm *harvester.VM) error {
			keys, err := consoleKeys(ctx, vs.Client, vm)
			if err != nil {
				return err
			}
			return vs.Client.SetHostKeys(ctx, vm, keys)
		},
	}
}

func consoleKeys(ctx context.Context, client *harvester.Client, vm *harvester.VM) ([]string, error) {
	keys, err := client.HostKeys(ctx, vm)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("%s has not written its host keys to its console yet", vm)
	}
	return keys, err
}

func parseKeys(vm *harvester.VM, lines []string) ([]ssh.PublicKey, error) {
	var out []ssh.PublicKey
	for _, line := range lines {
		key, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return nil, fmt.Errorf("host keys of %s: %w", vm, err)
		}
		out = append(out, key)
	}
	return out, nil
}
