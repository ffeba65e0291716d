package proxmox

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// PCIUse is a VM that has a claim on devices of its host, whether it runs or not: a
// stopped VM takes its cards back when it starts.
type PCIUse struct {
	Name      string
	VMID      int
	Tags      []string
	Mappings  []string     // through which it has them
	Addresses []PCIAddress // what it has or may get: every device of its mappings
}

// looksAtOnce bounds how many VMs are read at a time.
const looksAtOnce = 8

// PCIUses returns every VM on host that has a claim on devices, whoever it belongs
// to. It reads every VM of the host.
func (c *Client) PCIUses(ctx context.Context, host string) ([]PCIUse, error) {
	all, err := c.resources(ctx)
	if err != nil {
		return nil, err
	}
	mappings, err := c.Mappings(ctx, host)
	if err != nil {
		return nil, err
	}
	found := make([]PCIUse, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(looksAtOnce)
	for i, r := range all {
		if r.Type != "qemu" || r.Node != host || bool(r.Template) {
			continue
		}
		group.Go(func() error {
			entries, err := look[[]pendingEntry](ctx, c, vmPath(host, int(r.VMID), "pending"), nil)
			if errors.Is(err, ErrNotFound) {
				return nil // destroyed since
			}
			if err == nil {
				found[i] = newVM(host, int(r.VMID), entries, true).uses(mappings)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(u PCIUse) bool { return len(u.Addresses)+len(u.Mappings) == 0 }), nil
}

// uses reads what a VM's configuration passes through, now and after its next start.
func (v *VM) uses(mappings []MappingState) PCIUse {
	u := PCIUse{Name: v.Name, VMID: v.VMID, Tags: v.Tags}
	var lines []string
	for i := range 16 {
		lines = append(lines, v.config["hostpci"+itoa(i)])
	}
	for _, p := range v.Pending {
		if strings.HasPrefix(p.Key, "hostpci") {
			lines = append(lines, p.Have)
		}
	}
	for _, line := range lines {
		p := loose(line)
		if id := p.Get("mapping"); id != "" {
			u.Mappings = append(u.Mappings, id)
			u.Addresses = append(u.Addresses, devicesOf(id, v.Host, mappings)...)
			continue
		}
		for raw := range strings.SplitSeq(p.First("host", ""), ";") {
			if a, err := ParsePCIAddress(raw); err == nil {
				u.Addresses = append(u.Addresses, a)
			}
		}
	}
	slices.SortFunc(u.Addresses, PCIAddress.Compare)
	u.Addresses = slices.Compact(u.Addresses)
	return u
}

func devicesOf(id, host string, mappings []MappingState) []PCIAddress {
	var out []PCIAddress
	for _, m := range mappings {
		for _, d := range m.Devices {
			if m.ID == id && d.Host == host {
				out = append(out, d.Address)
			}
		}
	}
	return out
}
