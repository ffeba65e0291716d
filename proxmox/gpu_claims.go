package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Ledger reads the claims on the devices of hosts. It makes one request for all VMs, one for the
// mappings, one for each host's hardware, and one for each VM there and for each container of a host
// with NVIDIA cards.
func (c *PCIClient) Ledger(ctx context.Context, hosts ...string) (*pci.Ledger, error) {
	return c.LedgerWithout(ctx, "", hosts...)
}

// LedgerWithout is [PCIClient.Ledger] without owner's VMs, which it does not read. It is for callers
// that already know them.
func (c *PCIClient) LedgerWithout(ctx context.Context, owner string, hosts ...string) (*pci.Ledger, error) {
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
	containers, err := c.containers(ctx, hosts, devices)
	if err != nil {
		return nil, err
	}
	return pci.NewLedger(hosts, devices, mappings, vms, containers), nil
}

// containers reads the containers of the hosts with cards, sorted by VMID.
func (c *PCIClient) containers(ctx context.Context, hosts []string, devices map[string][]pci.Function) ([]pci.Container, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r live.Resource) bool {
		return r.Type != "lxc" || bool(r.Template) || !slices.Contains(hosts, r.Node) || !slices.ContainsFunc(devices[r.Node], pci.Function.IsGPU)
	})
	out := make([]pci.Container, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(live.MaxConcurrent)
	for i, r := range all {
		group.Go(func() error {
			config, err := api.GetShared[map[string]any](ctx, c.pve, api.NodePath(r.Node, "lxc", fmt.Sprint(int(r.VMID)), "config"), nil)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			out[i] = pci.Container{
				Host: r.Node, VMID: int(r.VMID), Name: cmp.Or(r.Name, "none"), Tags: splitTags(r.Tags), Running: r.Status == "running",
				OnBoot: fmt.Sprint(config["onboot"]) == "1", Entries: entries(config),
			}
			return err
		})
	}
	err = group.Wait()
	out = slices.DeleteFunc(out, func(ct pci.Container) bool { return len(ct.Entries) == 0 })
	sortBy(out, func(a, b pci.Container) int { return cmp.Compare(a.VMID, b.VMID) })
	return out, err
}

// entries are the lines of a container's configuration that may name a GPU. LXC's own keys come as
// pairs (pve-container, PVE/API2/LXC/Config.pm).
func entries(config map[string]any) []pci.Entry {
	var out []pci.Entry
	for key, value := range config {
		if text, ok := value.(string); ok {
			out = append(out, pci.Entry{Key: key, Value: text})
		}
	}
	raw, _ := config["lxc"].([]any)
	for _, line := range raw {
		if pair, ok := line.([]any); ok && len(pair) == 2 {
			out = append(out, pci.Entry{Key: fmt.Sprint(pair[0]), Value: fmt.Sprint(pair[1])})
		}
	}
	out = slices.DeleteFunc(out, func(e pci.Entry) bool { return e.Key == "description" || !e.MayNameGPU() })
	sortBy(out, func(a, b pci.Entry) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value)) })
	return out
}

// claimants reads every VM on the hosts that does not belong to owner and has a passed-through
// device, sorted by host and VMID.
func (c *PCIClient) claimants(ctx context.Context, owner string, hosts []string) ([]pci.Guest, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r live.Resource) bool { return r.Type != "qemu" || !slices.Contains(hosts, r.Node) })
	known := map[int]bool{}
	if owner != "" {
		ours, _, err := c.client.VMs.classify(ctx, all, owner)
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
	sortBy(found, compareByHost)
	out := make([]pci.Guest, len(found))
	for i, vm := range found {
		out[i] = pci.Guest{
			Host: vm.Host, VMID: vm.VMID, Name: cmp.Or(vm.Name, "none"), Tags: vm.Tags, Running: vm.Running, OnBoot: vm.OnBoot, Template: vm.Template,
			Devices: vm.config, Leaving: map[string]string{},
		}
		for _, p := range vm.Pending {
			out[i].Leaving[p.Key] = p.Have
		}
	}
	return out, nil
}
