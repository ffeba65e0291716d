package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// agentPatience bounds the time for asking all guest agents of a host for their addresses. They are
// asked one at a time, and Proxmox waits three seconds for each agent that does not run.
const agentPatience = 30 * time.Second

// mostClaimed bounds how many addresses of a range that a cluster takes are listed one by one.
const mostClaimed = 256

// Addresses returns the IP addresses that are known to be in use on a host, each with its owner:
// the host's bridges, containers, VMs by their cloud-init configuration and the notes of machines of
// clusters, and running VMs by their guest agents. It cannot see machines outside this host, or guests without an agent.
func (c *HostClient) Addresses(ctx context.Context, host string) (map[netip.Addr]string, error) {
	bridges, err := c.Bridges(ctx, host)
	if err != nil {
		return nil, err
	}
	residents, err := c.Residents(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	out := map[netip.Addr]string{}
	add := func(text, who string) {
		addr, err := netip.ParseAddr(text)
		if prefix, perr := netip.ParsePrefix(text); perr == nil {
			addr, err = prefix.Addr(), nil
		}
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, known := out[addr]; !known {
			out[addr] = who
		}
	}
	for _, b := range bridges {
		add(b.CIDR, "host "+host)
		add(b.Gateway, "the gateway")
	}
	if slices.ContainsFunc(bridges, func(b Bridge) bool { return b.IPAM }) {
		leases, err := c.Leases(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range leases {
			add(l.Addr.String(), l.Owner())
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	asking, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	group.SetLimit(live.MaxConcurrent)
	for _, r := range residents {
		if r.Host != host || r.Template {
			continue
		}
		group.Go(func() error {
			texts := c.addressesOf(ctx, asking, r)
			for _, text := range texts {
				add(text, fmt.Sprintf("%s (%d on %s)", r.Name, r.VMID, r.Host))
			}
			return ctx.Err()
		})
	}
	return out, group.Wait()
}

// addressesOf reads the addresses of one guest. Addresses that cannot be read are left out, so that
// one guest does not hide the others.
func (c *HostClient) addressesOf(ctx, asking context.Context, r Resident) []string {
	var out []string
	if r.Container {
		lines, _ := c.interfaces(ctx, r)
		for _, line := range lines {
			out = append(out, line.Get("ip"), line.Get("ip6"))
		}
		return out
	}
	vm, err := c.readShared(ctx, r.Host, r.VMID, r.Running)
	if err != nil {
		return nil
	}
	for key, line := range vm.Config() {
		if strings.HasPrefix(key, "ipconfig") {
			out = append(out, wire.ParseLenient(line).Get("ip"), wire.ParseLenient(line).Get("ip6"), wire.ParseLenient(line).Get("gw"))
		}
	}
	for _, claim := range vm.claimedRanges() {
		for a, n := claim.First, 0; n < mostClaimed && a.IsValid() && !claim.Last.Less(a); a, n = a.Next(), n+1 {
			out = append(out, a.String())
		}
	}
	if !r.Running || !vm.Agent {
		return out
	}
	addresses, err := c.client.Agents.Addresses(asking, vm)
	if err != nil {
		return out
	}
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return out
}

// interfaces reads the interfaces of a container.
func (c *HostClient) interfaces(ctx context.Context, r Resident) ([]wire.Properties, error) {
	config, err := api.GetShared[map[string]any](ctx, c.pve, api.NodePath(r.Host, "lxc", strconv.Itoa(r.VMID), "config"), nil)
	var out []wire.Properties
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if line, ok := config[key].(string); ok && strings.HasPrefix(key, "net") {
			out = append(out, wire.ParseLenient(line))
		}
	}
	return out, err
}

// Neighbour is a guest of any owner with what its configuration says of it on the network. Asking
// for that needs no guest agent, so a guest that does not answer holds nothing up.
type Neighbour struct {
	Resident
	Addresses []netip.Addr // static ones
	Claims    []Range      // addresses that its cluster takes beside those of its machines: VIP, pools
	MACs      []string
}

// UsesRange reports whether a guest, or its cluster, takes an address of a range.
func (n Neighbour) UsesRange(r Range) bool {
	return slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return r.Overlaps(Range{First: a, Last: a}) }) ||
		slices.ContainsFunc(n.Claims, r.Overlaps)
}

// Neighbours reads the configurations of all guests that the token may see, sorted by VMID. It
// leaves out templates, which never run, guests on hosts that are off, and those that cannot be
// read. Concurrent lookups share the requests, one for each guest.
func (c *HostClient) Neighbours(ctx context.Context) ([]Neighbour, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	residents, err := c.Residents(ctx)
	if err != nil {
		return nil, err
	}
	away := map[string]bool{}
	for _, r := range all {
		away[r.Node] = away[r.Node] || r.HostErr != nil || r.Type == "lxc" && r.Status == "unknown"
	}
	residents = slices.DeleteFunc(residents, func(r Resident) bool { return r.Template || away[r.Host] })
	out := make([]Neighbour, len(residents))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(live.MaxConcurrent)
	for i, r := range residents {
		group.Go(func() error {
			n, err := c.neighbour(ctx, r)
			if err == nil {
				out[i] = n
			}
			return ctx.Err()
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(out, func(n Neighbour) bool { return n.VMID == 0 }), err
}

func (c *HostClient) neighbour(ctx context.Context, r Resident) (Neighbour, error) {
	out := Neighbour{Resident: r}
	if r.Container {
		lines, err := c.interfaces(ctx, r)
		for _, line := range lines {
			out.Addresses = append(out.Addresses, addressesIn(line.String())...)
			out.MACs = append(out.MACs, line.Get("hwaddr"))
		}
		return out, err
	}
	vm, err := c.readShared(ctx, r.Host, r.VMID, r.Running)
	if err != nil {
		return out, err
	}
	out.Addresses, out.Claims = vm.Addresses(), vm.claimedRanges()
	for _, nic := range vm.NICs {
		out.MACs = append(out.MACs, nic.MAC)
	}
	return out, nil
}

// Lease is an address that Proxmox's own IPAM keeps for somebody, in a VNet whose zone has DHCP: of a
// guest's network card, by hand for a MAC, or of the subnet's gateway.
type Lease struct {
	Addr     netip.Addr
	VNet     string
	Hostname string
	MAC      string
	VMID     int // 0: of no guest
	Gateway  bool
}

// Owner says for whom it is kept.
func (l Lease) Owner() string {
	switch {
	case l.Gateway:
		return "the gateway of VNet " + l.VNet
	case l.Hostname != "" && l.VMID != 0:
		return fmt.Sprintf("%s (VM %d)", l.Hostname, l.VMID)
	case l.VMID != 0:
		return fmt.Sprintf("VM %d", l.VMID)
	case l.Hostname != "":
		return l.Hostname
	}
	return cmp.Or(l.MAC, "somebody")
}

// Leases reads Proxmox's own IPAM. Networks that the token may not see (SDN.Audit on
// /sdn/zones/ZONE/VNET) are left out, by Proxmox or here.
func (c *HostClient) Leases(ctx context.Context) ([]Lease, error) {
	type entry struct {
		IP       string    `json:"ip"`
		VNet     string    `json:"vnet"`
		Hostname string    `json:"hostname"`
		MAC      string    `json:"mac"`
		VMID     wire.Int  `json:"vmid"`
		Gateway  wire.Bool `json:"gateway"`
	}
	all, err := api.GetShared[[]entry](ctx, c.pve, "/cluster/sdn/ipams/pve/status", nil)
	if err != nil && !api.Forbidden(err) {
		return nil, err
	}
	var out []Lease
	for _, e := range all {
		if addr, err := netip.ParseAddr(e.IP); err == nil {
			out = append(out, Lease{Addr: addr, VNet: e.VNet, Hostname: e.Hostname, MAC: e.MAC, VMID: int(e.VMID), Gateway: bool(e.Gateway)})
		}
	}
	return out, nil
}
