package draft

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
	Blind    bool // the token may not see PCI devices, so that GPUs is empty
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
	used, err := c.Hosts.Addresses(ctx, h.Name)
	for addr, who := range used {
		if _, known := f.Used[addr]; !known {
			f.Used[addr] = who
		}
	}
	return err
}

// madeFor begins the descriptions of the mappings that package cluster makes.
const madeFor = "made by homelab for cluster "

// unavailableReason says who has a card, or why nobody can have it.
func unavailableReason(card pci.Card, ledger *pci.Ledger) string {
	for _, cl := range card.Claims {
		if !cl.Template {
			return fmt.Sprintf("%s has it, %s", cl, cl.Description())
		}
	}
	for _, m := range ledger.Mappings {
		if name, made := strings.CutPrefix(m.Description, madeFor); made && slices.Contains(card.Mappings, m.ID) {
			return "kept for cluster " + name
		}
	}
	return card.Problem()
}
