package cluster

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
)

// firstServer is the step that creates the cluster on a server. If that is an external machine,
// nothing may answer at the virtual address before; for VMs, the check of the hosts asks for it.
func (c *flow) firstServer(n spec.Node) converge.Step {
	if !n.External || !c.spec.K3s.VIP.IsValid() {
		return c.members.MemberStep(n)
	}
	return c.members.FirstServerStep(n, func(ctx context.Context) error { return c.vipIsFree(ctx, n) })
}

func (c *flow) vipIsFree(ctx context.Context, n spec.Node) error {
	if exists, err := c.members.ClusterExists(ctx, n); err != nil || exists { // and has the address
		return err
	}
	vip := c.spec.K3s.VIP
	said := preflight.ProbeAddress(ctx, c.nodes.DialTo, vip)
	if said == "" {
		return ctx.Err()
	}
	taken := preflight.Address{Range: proxmox.Range{First: vip, Last: vip}, Owner: "the VIP", Place: c.spec.Places["vip"]}
	return converge.Permanent(fmt.Errorf("%s is taken: %s; give it another address, or switch off what has it", taken, said))
}
