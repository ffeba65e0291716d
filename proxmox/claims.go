package proxmox

import (
	"cmp"
	"context"
	"slices"

	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Ledger reads the claims on the devices of hosts. It makes one request for all VMs, one for the
// mappings, one for each host's hardware, and one for each VM there.
func (c *Client) Ledger(ctx context.Context, hosts ...string) (*pci.Ledger, error) {
	return c.LedgerWithout(ctx, "", hosts...)
}

// LedgerWithout is [Client.Ledger] without owner's VMs, which it does not read. It is for callers
// that already know them.
func (c *Client) LedgerWithout(ctx context.Context, owner string, hosts ...string) (*pci.Ledger, error) {
	devices := map[string][]pci.Function{}
	var mappings []pci.MappingState
	for i, host := range hosts {
		var err error
		if devices[host], err = c.Devices(ctx, host); err != nil {
			return nil, err
		}
		if i == 0 {
			if mappings, err = c.Mappings(ctx, host); err != nil {
				return nil, err
			}
		}
	}
	vms, err := c.claimants(ctx, owner, hosts)
	if err != nil {
		return nil, err
	}
	return pci.NewLedger(hosts, devices, mappings, vms), nil
}

// claimants reads every VM on the hosts that does not belong to owner and has a passed-through
// device, sorted by host and VMID.
func (c *Client) claimants(ctx context.Context, owner string, hosts []string) ([]*VM, error) {
	all, err := live.All(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r live.Resource) bool { return r.Type != "qemu" || !slices.Contains(hosts, r.Node) })
	known := map[int]bool{}
	if owner != "" {
		ours, _, err := c.tell(ctx, all, owner)
		if err != nil {
			return nil, err
		}
		for _, vm := range ours {
			known[vm.VMID] = true
		}
	}
	all = slices.DeleteFunc(all, func(r live.Resource) bool { return known[int(r.VMID)] })
	found, err := c.readAll(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, vm := range found {
		vm.Name = cmp.Or(vm.Name, "none")
	}
	slices.SortFunc(found, byPlace)
	return found, nil
}
