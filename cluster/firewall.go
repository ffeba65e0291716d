package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// firewallState is a VM and its firewall; vm is nil before the VM exists.
type firewallState struct {
	vm *proxmox.VM
	is proxmox.Firewall
}

// firewallStep puts a node's VM into the security groups of the file, before anybody logs in to it: groups that
// do not let us in show at once.
func (c onProxmox) firewallStep(n spec.Node) *converge.Resource[firewallState] {
	return &converge.Resource[firewallState]{
		ID: "firewall/" + n.Name,
		Observe: func(ctx context.Context) (firewallState, error) {
			vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
			if err != nil || vm == nil {
				return firewallState{}, err
			}
			is, err := c.Proxmox.Firewall.Get(ctx, vm)
			return firewallState{vm, is}, err
		},
		Diff: func(s firewallState) converge.Diff { return s.is.Diff(n.SecurityGroups) },
		Apply: func(ctx context.Context, s firewallState) error {
			return c.Proxmox.Firewall.Set(ctx, s.vm, n.SecurityGroups)
		},
	}
}
