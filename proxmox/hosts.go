package proxmox

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Host is a host of the cluster as the other hosts see it. Its figures are zero while it is
// offline, or if the token lacks Sys.Audit on /nodes/NAME.
type Host struct {
	Name       string
	Online     bool
	CPUs       int  // logical CPUs
	Memory     Size // total
	MemoryUsed Size // including ZFS's cache
}

// List returns every host of the Proxmox cluster, sorted by name. For a host outside a cluster it
// returns that host alone.
func (c *HostClient) List(ctx context.Context) ([]Host, error) {
	all, err := live.Nodes(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	out := make([]Host, len(all))
	for i, e := range all {
		out[i] = Host{Name: e.Node, Online: e.Status == "online", CPUs: int(e.MaxCPU), Memory: Size(e.MaxMem), MemoryUsed: Size(e.Mem)}
	}
	sortBy(out, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// HostStatus is the current status of a host.
type HostStatus struct {
	Version   string // of its pve-manager: 9.2.11
	Kernel    string // running: 6.17.4-1-pve
	CPUs      int    // logical CPUs
	Memory    Size
	Available Size // available without swapping; ZFS's cache counts as used
}

// Status returns a host's status (Sys.Audit on /nodes/NAME).
func (c *HostClient) Status(ctx context.Context, host string) (HostStatus, error) {
	type answer struct {
		PVEVersion string `json:"pveversion"`
		KVersion   string `json:"kversion"`
		Kernel     struct {
			Release string `json:"release"`
		} `json:"current-kernel"`
		CPU struct {
			CPUs wire.Int `json:"cpus"`
		} `json:"cpuinfo"`
		Memory struct {
			Total     wire.Int  `json:"total"`
			Free      wire.Int  `json:"free"`
			Available *wire.Int `json:"available"` // newer releases only
		} `json:"memory"`
	}
	a, err := api.GetShared[answer](ctx, c.pve, api.NodePath(host, "status"), nil)
	if err != nil {
		return HostStatus{}, err
	}
	s := HostStatus{Kernel: a.Kernel.Release, CPUs: int(a.CPU.CPUs), Memory: Size(a.Memory.Total), Available: Size(a.Memory.Free)}
	if a.Memory.Available != nil {
		s.Available = Size(*a.Memory.Available)
	}
	if words := strings.Fields(a.KVersion); s.Kernel == "" && len(words) > 1 {
		s.Kernel = words[1] // "Linux 6.17.4-1-pve #1 SMP …"
	}
	if parts := strings.Split(a.PVEVersion, "/"); len(parts) > 1 {
		s.Version = parts[1] // "pve-manager/9.2.11/14a22df3"
	}
	return s, nil
}

// Clock returns a host's time, to the second (Sys.Audit on /nodes/NAME).
func (c *HostClient) Clock(ctx context.Context, host string) (time.Time, error) {
	var now struct {
		Time wire.Int `json:"time"`
	}
	if err := c.pve.Get(ctx, api.NodePath(host, "time"), nil, &now); err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(now.Time), 0), nil
}

// Quorate reports whether a majority of the cluster's hosts is online. Without a majority, Proxmox
// changes nothing. A host outside a cluster is always quorate (Sys.Audit on /).
func (c *HostClient) Quorate(ctx context.Context) (bool, error) {
	type entry struct {
		Type    string    `json:"type"`
		Quorate wire.Bool `json:"quorate"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, "/cluster/status", nil)
	if err != nil {
		return false, err
	}
	for _, e := range all {
		if e.Type == "cluster" {
			return bool(e.Quorate), nil
		}
	}
	return true, nil
}

// Bridge is a network of a host that VMs can join: a Linux bridge, an Open vSwitch bridge, or a
// vnet of Proxmox's SDN.
type Bridge struct {
	Name      string
	Type      string // bridge, OVSBridge or vnet
	IPAM      bool   // of a vnet: its zone keeps a list of addresses; see [HostClient.Leases]
	Active    bool
	VLANAware bool
	VIDs      string   // the VLANs that a VLAN-aware bridge carries, as in "2-4094"; empty: unknown
	Ports     []string // the host's ports in the bridge
	MTU       int      // 0: not set, or not reported, as of a VNet
	CIDR      string   // the host's own address in it, with its prefix length; may be empty
	Gateway   string   // the host's gateway, if it is on this bridge; may be empty
}

// Bridges returns the bridges of a host that the token may see (SDN.Audit or SDN.Use
// on /sdn/zones/localnetwork/NAME), sorted by name.
func (c *HostClient) Bridges(ctx context.Context, host string) ([]Bridge, error) {
	type entry struct {
		Iface     string    `json:"iface"`
		Type      string    `json:"type"`
		Active    wire.Bool `json:"active"`
		VLANAware wire.Bool `json:"bridge_vlan_aware"`
		VNetAware wire.Bool `json:"vlanaware"` // the same of a VNet
		VIDs      wire.Text `json:"bridge_vids"`
		Ports     string    `json:"bridge_ports"`
		OVSPorts  string    `json:"ovs_ports"`
		MTU       wire.Int  `json:"mtu"`
		CIDR      string    `json:"cidr"`
		Gateway   string    `json:"gateway"`
		IPAM      wire.Bool `json:"ipam"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "network"), url.Values{"type": {"any_bridge"}})
	if err != nil {
		return nil, err
	}
	out := make([]Bridge, len(all))
	for i, e := range all {
		out[i] = Bridge{
			Name: e.Iface, Type: e.Type, Active: bool(e.Active), VLANAware: bool(e.VLANAware || e.VNetAware), VIDs: string(e.VIDs),
			Ports: strings.Fields(e.Ports + " " + e.OVSPorts), MTU: int(e.MTU), CIDR: e.CIDR, Gateway: e.Gateway,
			IPAM: bool(e.IPAM),
		}
	}
	sortBy(out, func(a, b Bridge) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Port is an interface of a host by which it is in the network of one of its bridges, where the bridge has no address:
// vmbr0.20, a VLAN of it, or a port of Open vSwitch.
type Port struct {
	Bridge        string
	VLAN          int // 0: untagged
	CIDR, Gateway string
}

// Ports returns the ports of a host that have an address, sorted by bridge.
func (c *HostClient) Ports(ctx context.Context, host string) ([]Port, error) {
	type entry struct {
		Raw     string   `json:"vlan-raw-device"`
		ID      wire.Int `json:"vlan-id"`
		OVS     string   `json:"ovs_bridge"`
		Tag     wire.Int `json:"ovs_tag"`
		CIDR    string   `json:"cidr"`
		Gateway string   `json:"gateway"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "network"), nil)
	var out []Port
	for _, e := range all {
		if bridge := cmp.Or(e.OVS, e.Raw); bridge != "" && e.CIDR != "" {
			out = append(out, Port{Bridge: bridge, VLAN: int(cmp.Or(e.ID, e.Tag)), CIDR: e.CIDR, Gateway: e.Gateway})
		}
	}
	sortBy(out, func(a, b Port) int { return strings.Compare(a.Bridge, b.Bridge) })
	return out, err
}

// Resident is a VM or container of any owner on a host.
type Resident struct {
	Summary
	Container bool
	Used      Size // its memory in use; zero while it is off
}

// Residents returns every VM and container that the token may see (VM.Audit), of any owner,
// including templates, sorted by VMID. It makes one request, and one for each host with VMs;
// concurrent lookups of VMs share them.
func (c *HostClient) Residents(ctx context.Context) ([]Resident, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	out := make([]Resident, len(all))
	for i, r := range all {
		out[i] = Resident{Summary: summaryOf(r), Container: r.Type == "lxc", Used: Size(r.Mem)}
		out[i].Running = !bool(r.Template) && r.Status == "running"
	}
	sortBy(out, func(a, b Resident) int { return cmp.Compare(a.VMID, b.VMID) })
	return out, nil
}

// VMIDTaken asks Proxmox whether a VMID is in use, even by a guest that the token may not see.
func (c *VMClient) VMIDTaken(ctx context.Context, vmid int) (bool, error) {
	var same wire.Int
	err := c.pve.Get(ctx, "/cluster/nextid", url.Values{"vmid": {strconv.Itoa(vmid)}}, &same)
	if api.IsVMIDTaken(err) {
		return true, nil
	}
	return false, err
}
