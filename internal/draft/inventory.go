package draft

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Inventory is what there is.
type Inventory struct {
	Version string // of Proxmox VE, 9.2.11
	Hosts   []Host // that are up, sorted by name
	Down    []string
	Used    map[netip.Addr]string // addresses in use, and by whom
	Tags    []string              // of all VMs: names of clusters that are there are among them
	Pools   []string              // resource pools
}

// Host is one Proxmox VE host.
type Host struct {
	Name     string
	CPUs     int          // logical ones
	Memory   proxmox.Size // all of it
	Promised proxmox.Size // to VMs and containers that are there, running or not
	Storages []proxmox.Storage
	Bridges  []proxmox.Bridge
	GPUs     []GPU
	Blind    bool           // the token may not see PCI devices, so that GPUs is empty
	VLANs    map[string]int // by bridge: the VLAN of it in which the host has the address that Bridges show
	Devices  []Device       // that were made ready to be passed through
}

// Device is what nodes can get besides GPUs.
type Device struct {
	Bus   string // pci or usb
	Is    string // what the file says of it: the name of a resource mapping, or vendor and device
	Count int    // how many nodes can have one
	What  string
}

// GPU is one NVIDIA card.
type GPU struct {
	Address string // 0000:41:00
	Model   string // A100 PCIe 80GB
	Taken   string // who claims it, or why it is not usable; empty: it is free
}

// FreeGPUs returns the free cards of a host.
func (h Host) FreeGPUs() []GPU {
	return slices.DeleteFunc(slices.Clone(h.GPUs), func(g GPU) bool { return g.Taken != "" })
}

// bridge returns the host's bridge of that name.
func (h Host) bridge(name string) (proxmox.Bridge, bool) {
	i := slices.IndexFunc(h.Bridges, func(b proxmox.Bridge) bool { return b.Name == name })
	if i < 0 {
		return proxmox.Bridge{}, false
	}
	return h.Bridges[i], true
}

// Discover looks at every host of the Proxmox cluster that is up.
func Discover(ctx context.Context, c *proxmox.Client) (Inventory, error) {
	f := Inventory{Version: c.Version().Version, Used: map[netip.Addr]string{}}
	hosts, err := c.Hosts.List(ctx)
	if err != nil {
		return f, err
	}
	residents, err := c.Hosts.Residents(ctx)
	if err != nil {
		return f, err
	}
	for _, r := range residents {
		f.Tags = append(f.Tags, r.Tags...)
	}
	if f.Pools, err = c.Pools(ctx); err != nil {
		return f, err
	}
	for _, h := range hosts {
		if !h.Online {
			f.Down = append(f.Down, h.Name)
			continue
		}
		host := Host{Name: h.Name, CPUs: h.CPUs, Memory: h.Memory}
		for _, r := range residents {
			if r.Host == h.Name && !r.Template {
				host.Promised += r.Memory
			}
		}
		if err := f.observeHost(ctx, c, &host); err != nil {
			return f, fmt.Errorf("host %s: %w", h.Name, err)
		}
		f.Hosts = append(f.Hosts, host)
	}
	if len(f.Hosts) == 0 {
		return f, errors.New("Proxmox shows no host that is up")
	}
	return f, nil
}

// observeHost fills in what a host has.
func (f *Inventory) observeHost(ctx context.Context, c *proxmox.Client, h *Host) error {
	var err error
	if h.CPUs == 0 || h.Memory == 0 {
		return fmt.Errorf("the token may not see what it has: grant it Sys.Audit on /nodes/%s; "+
			"homelab host:role prints the commands, docs/permissions.md explains them", h.Name)
	}
	if h.Storages, err = c.Storages.List(ctx, h.Name); err != nil {
		return err
	}
	if h.Bridges, err = c.Hosts.Bridges(ctx, h.Name); err != nil {
		return err
	}
	if err := f.observePorts(ctx, c, h); err != nil {
		return err
	}
	ledger, err := c.PCI.Ledger(ctx, h.Name)
	var no proxmox.Error
	switch {
	case errors.As(err, &no) && no.IsPermission(): // a cluster without GPUs does without
		h.Blind, ledger = true, &pci.Ledger{}
	case err != nil:
		return err
	}
	for _, card := range ledger.Cards {
		h.GPUs = append(h.GPUs, GPU{Address: card.Address.Whole().String(), Model: card.Model, Taken: unavailableReason(card, ledger)})
	}
	if err := h.observeDevices(ctx, c, ledger); err != nil {
		return err
	}
	used, err := c.Hosts.Addresses(ctx, h.Name)
	for addr, who := range used {
		if _, known := f.Used[addr]; !known {
			f.Used[addr] = who
		}
	}
	return err
}

// observePorts gives a bridge without an address the one that the host has in its network.
func (f *Inventory) observePorts(ctx context.Context, c *proxmox.Client, h *Host) error {
	ports, err := c.Hosts.Ports(ctx, h.Name)
	h.VLANs = map[string]int{}
	for _, p := range ports {
		i := slices.IndexFunc(h.Bridges, func(b proxmox.Bridge) bool { return b.Name == p.Bridge && b.CIDR == "" })
		if i < 0 {
			continue
		}
		h.Bridges[i].CIDR, h.Bridges[i].Gateway, h.VLANs[p.Bridge] = p.CIDR, p.Gateway, p.VLAN
		for text, who := range map[string]string{p.CIDR: "host " + h.Name, p.Gateway + "/32": "the gateway"} {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				f.Used[prefix.Addr()] = who
			}
		}
	}
	return err
}

// observeDevices finds what somebody made ready to be passed through and nobody has: resource mappings of others than
// GPUs, and virtual functions of network cards.
func (h *Host) observeDevices(ctx context.Context, c *proxmox.Client, ledger *pci.Ledger) error {
	for _, m := range ledger.Mappings {
		n, claims := ledger.MappingClaims(h.Name, m.ID)
		if n <= len(claims) || names.MappingCluster(m.Description) != "" {
			continue
		}
		at := ledger.MappingChoices(h.Name, m.ID)[0][0]
		if _, gpu := ledger.Card(h.Name, at); !gpu {
			first, _ := ledger.Function(h.Name, at)
			h.Devices = append(h.Devices, Device{"pci", m.ID, n - len(claims), first.Name})
		}
	}
	usb, err := c.PCI.USBMappings(ctx, "")
	if err != nil {
		return err
	}
	claims, err := c.PCI.USBClaims(ctx, h.Name)
	if err != nil {
		return err
	}
	for _, m := range usb {
		for _, d := range m.Devices[h.Name] {
			taken := slices.ContainsFunc(claims, func(cl proxmox.USBClaim) bool { return cl.Device.MayBe(d) })
			if !taken && names.MappingCluster(m.Description) == "" {
				h.Devices = append(h.Devices, Device{"usb", m.ID, 1, d.String()})
			}
		}
	}
	kinds := map[string]bool{}
	if h.Blind {
		return nil
	}
	functions, err := c.PCI.Devices(ctx, h.Name)
	for _, fn := range functions {
		if fn.Physical == nil || !strings.HasPrefix(fn.Class, "02") || kinds[fn.ID()] {
			continue
		}
		kinds[fn.ID()] = true
		free := slices.DeleteFunc(ledger.DevicesOfKind(h.Name, fn.ID()), func(d pci.Device) bool {
			_, taken := ledger.TakenBy(d, func(pci.Claim) bool { return false })
			return taken
		})
		if len(free) > 0 {
			h.Devices = append(h.Devices, Device{"pci", fn.ID(), len(free), fn.Name})
		}
	}
	return err
}

// unavailableReason says who has a card, or why nobody can have it.
func unavailableReason(card pci.Card, ledger *pci.Ledger) string {
	for _, cl := range card.Claims {
		if !cl.Template {
			return fmt.Sprintf("%s has it, %s: %s", cl, cl.Description(), cl.ReleaseCommand())
		}
	}
	for _, m := range ledger.Mappings {
		if name := names.MappingCluster(m.Description); name != "" && slices.Contains(card.Mappings, m.ID) {
			return "kept for cluster " + name
		}
	}
	return card.Problem()
}
