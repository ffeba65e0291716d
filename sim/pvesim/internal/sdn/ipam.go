package sdn

import (
	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// ipamStatus lists the addresses in an IPAM.
const ipamStatus = "/cluster/sdn/ipams/{ipam}/status"

// listLeases are the addresses in Proxmox's own IPAM, in zones that have it and DHCP. Who may
// not see a network is not told that (PVE/API2/Network/SDN/Ipams.pm, ipamindex).
func listLeases(c *world.Call) (any, error) {
	out := []any{}
	if c.Param("ipam") != "pve" {
		return nil, answer.Die("Currently only PVE IPAM is supported! at /usr/share/perl5/PVE/API2/Network/SDN/Ipams.pm line 256.")
	}
	for _, n := range c.State.SDN.VNets {
		if n.NoIPAM || n.DHCP == "" || !access.CanAny(c.State, c.Who, "/sdn/zones/"+n.Zone+"/"+n.Name, "SDN.Audit", "SDN.Allocate") {
			continue
		}
		for _, l := range n.Leases {
			e := map[string]any{"zone": n.Zone, "vnet": n.Name, "subnet": n.Subnet, "ip": l.IP}
			switch {
			case l.Gateway:
				e["gateway"] = 1
			case l.VMID != 0:
				e["vmid"] = l.VMID
			}
			if l.MAC != "" {
				e["mac"] = l.MAC
			}
			if l.Hostname != "" {
				e["hostname"] = l.Hostname
			}
			out = append(out, e)
		}
	}
	return out, nil
}
