package preflight

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// plug is a network interface that several VMs want with the same settings.
type plug struct {
	nic proxmox.NIC // bridge, VLAN and MTU
	vms []string
}

func plugs(vms []VM) []plug {
	var out []plug
	for _, vm := range vms {
		for _, n := range vm.NICs {
			nic := proxmox.NIC{Bridge: n.Bridge, VLAN: n.VLAN, MTU: n.MTU}
			i := slices.IndexFunc(out, func(p plug) bool { return p.nic == nic })
			if i < 0 {
				i = len(out)
				out = append(out, plug{nic: nic})
			}
			out[i].vms = append(out[i].vms, vm.Name)
		}
	}
	return out
}

// checkNetworks checks whether VMs can join the networks that they want. Proxmox checks that only
// at start: "bridge 'vmbr9' does not exist" (pve-common, PVE/Network.pm, tap_plug).
func checkNetworks(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	all := seen.bridges
	switch {
	case all.err != nil:
		return []Finding{unobservedFinding(h.Name, all.err)}
	case len(all.is) == 0:
		return []Finding{unobservedFinding(h.Name,
			fmt.Errorf("host %s shows no bridge: the token may not see them; grant it SDN.Use on /sdn/zones/localnetwork", h.Name))}
	}
	var names []string
	for _, b := range all.is {
		names = append(names, b.Name)
	}
	var out []Finding
	for _, p := range plugs(w.vmsOn(h.Name)) {
		if i := slices.Index(names, p.nic.Bridge); i >= 0 {
			out = append(out, p.checkBridge(h.Name, all.is[i], all.is)...)
			continue
		}
		out = append(out, p.missingBridge(h.Name, names, s))
	}
	return out
}

// vlanOf is a VLAN interface of another, and noBridge are usual names of other interfaces of hosts:
// bonds, VLANs, cards, and the ports of OVS.
var (
	vlanOf   = regexp.MustCompile(`^(.+)\.([0-9]{1,4})$`)
	noBridge = regexp.MustCompile(`^(bond|vlan|eth|nic|en[opsx])[0-9]`)
)

// missingBridge is a bridge that the host does not show. Bonds, VLAN interfaces and cards are no bridges
// ("neither a linux nor an OVS bridge", PVE/Network.pm, tap_plug), and a VNet is of a zone of its own.
func (p plug) missingBridge(host string, has []string, s *observation) Finding {
	b, cure := p.nic.Bridge, "write bridge: with one of them, or make it: System, Network in the web interface"
	switch m := vlanOf.FindStringSubmatch(b); {
	case m != nil && slices.Contains(has, m[1]):
		cure = fmt.Sprintf("write bridge: %s and vlan: %s", m[1], m[2])
	case m != nil || noBridge.MatchString(b):
		cure = fmt.Sprintf("VMs join bridges, no cards, bonds or VLANs of the host: write bridge: with one of them (and vlan: for a VLAN of it), or make one whose port is %s", b)
	default:
		cure += fmt.Sprintf("; a VNet of Proxmox's SDN is seen with SDN.Use on /sdn/zones/ZONE/%s", b)
	}
	there := strings.Join(has, ", ")
	for _, other := range slices.Sorted(maps.Keys(s.byHost)) {
		for _, x := range s.byHost[other].bridges.is {
			switch {
			case x.Name != b:
			case x.Type == "vnet":
				there += fmt.Sprintf("; %s has the VNet %s, whose zone is not on %s", other, b, host)
				cure = fmt.Sprintf("add %s to the nodes of its zone: Datacenter, SDN, Zones, and apply", host)
			default:
				there += fmt.Sprintf("; %s has %s", other, b)
			}
		}
	}
	return errorf(b, cure, "host %s has no bridge %s, for %s, or the token may not see it; it has %s", host, b, firstNames(p.vms), there)
}

// checkBridge checks an existing bridge.
func (p plug) checkBridge(host string, b proxmox.Bridge, all []proxmox.Bridge) []Finding {
	if !b.Active {
		return []Finding{errorf(b.Name, "bring it up, on the host: `ifup "+b.Name+"`", "bridge %s on %s is not up", b.Name, host)}
	}
	var out []Finding
	if problem := p.vlan(host, b, all); problem != nil {
		out = append(out, *problem)
	}
	// PVE/QemuServer.pm, print_netdevice_full: "MTU '9000' is bigger than the bridge MTU '1500'".
	line := map[bool]string{true: "ovs_mtu", false: "mtu"}[b.Type == "OVSBridge"]
	switch {
	case b.Type == "vnet" && p.nic.MTU > tunnelMTU:
		out = append(out, warnf(b.Name,
			"remove mtu: from the file, and VMs get the VNet's; or set the MTU of its zone: Datacenter, SDN, Zones",
			"%s: the MTU is %d in the file, and the VNet %s has its zone's, 1450 in VXLAN and EVPN zones unless set: if it is smaller, Proxmox starts no such VM", firstNames(p.vms), p.nic.MTU, b.Name))
	case b.MTU == 0 && p.nic.MTU > usualMTU: // the bridge then has the lowest MTU of its ports, which Proxmox does not report
		out = append(out, warnf(b.Name,
			fmt.Sprintf("look at it (ip link show %s), and give the bridge an %s line in /etc/network/interfaces", printable.Word(b.Name), line),
			"%s: the MTU is %d in the file, and bridge %s on %s states none: if the bridge's is smaller, Proxmox starts no such VM",
			firstNames(p.vms), p.nic.MTU, b.Name, host))
	case b.MTU != 0 && p.nic.MTU > b.MTU:
		out = append(out, errorf(b.Name, fmt.Sprintf("write mtu: %d, or raise the bridge's and its ports'", b.MTU),
			"%s: the MTU is %d in the file, and that of bridge %s on %s is %d: Proxmox starts no such VM",
			firstNames(p.vms), p.nic.MTU, b.Name, host, b.MTU))
	}
	return out
}

// The MTU of an interface without a configured one, and of a VNet in a tunnel (pve-network,
// PVE/Network/SDN/Zones/VxlanPlugin.pm).
const (
	usualMTU  = 1500
	tunnelMTU = 1450
)

// vlan checks whether a bridge carries a VLAN. An OVS bridge carries all. A Linux bridge that is not
// VLAN-aware can, too: Proxmox adds a bridge for the VLAN on all ports of the bridge, which must have
// at least one (pve-common, PVE/Network.pm, activate_bridge_vlan). A VNet passes VLANs of VMs only if
// it is VLAN-aware (pve-network, PVE/Network/SDN/Zones/Plugin.pm, tap_plug).
func (p plug) vlan(host string, b proxmox.Bridge, all []proxmox.Bridge) *Finding {
	var f Finding
	aware := "make it VLAN-aware: Network in the web interface, or bridge-vlan-aware yes in /etc/network/interfaces, then ifreload -a"
	switch {
	case p.nic.VLAN == 0 || b.Type == "OVSBridge":
		return nil
	case b.Type == "vnet" && !b.VLANAware:
		f = errorf(b.Name, "remove vlan: (the VNet has a tag of its own), or make it VLAN-aware: Datacenter, SDN, VNets, and apply",
			"the VNet %s on %s is not VLAN-aware, and %s wants VLAN %d in it: Proxmox says \"vm vlans are not allowed on vnet %s\"", b.Name,
			host, firstNames(p.vms), p.nic.VLAN, b.Name)
	case b.VLANAware && b.VIDs != "" && !vlanListContains(b.VIDs, p.nic.VLAN):
		f = warnf(b.Name, fmt.Sprintf("add it to bridge-vids of %s in /etc/network/interfaces, then ifreload -a", b.Name),
			"bridge %s on %s lets VLANs %s through, and %s wants VLAN %d", b.Name, host, b.VIDs, firstNames(p.vms), p.nic.VLAN)
	case b.VLANAware:
		return nil
	case len(b.Ports) == 0:
		f = errorf(b.Name, aware,
			"bridge %s on %s is not VLAN-aware and has no port, so VLAN %d (%s) leads nowhere: Proxmox says \"no physical interface on bridge\"", b.Name, host, p.nic.VLAN, firstNames(p.vms))
	default:
		return p.checkVLANNames(host, b, all, aware)
	}
	return &f
}

// longestName of an interface, in Linux.
const longestName = 15

// checkVLANNames checks whether Proxmox can add a bridge for a VLAN: the names of what it makes have to fit
// (PVE/Network.pm, check_iface_name), and no bridge may have the VLAN of a port already.
func (p plug) checkVLANNames(host string, b proxmox.Bridge, all []proxmox.Bridge, aware string) *Finding {
	made := []string{fmt.Sprintf("%sv%d", b.Name, p.nic.VLAN)}
	for _, port := range b.Ports {
		made = append(made, fmt.Sprintf("%s.%d", port, p.nic.VLAN))
	}
	for _, name := range made {
		if len(name) > longestName {
			f := errorf(b.Name, aware,
				"bridge %s on %s is not VLAN-aware, and Proxmox cannot make %s for VLAN %d (%s): the name is longer than %d characters", b.Name, host, name, p.nic.VLAN, firstNames(p.vms), longestName)
			return &f
		}
		if i := slices.IndexFunc(all, func(x proxmox.Bridge) bool { return slices.Contains(x.Ports, name) }); i >= 0 {
			f := errorf(b.Name, fmt.Sprintf("write bridge: %s without vlan:, or %s", all[i].Name, aware),
				"VLAN %d of bridge %s on %s (%s) is the port %s of bridge %s: Proxmox says \"interface %s already exist in bridge %s\"",
				p.nic.VLAN, b.Name, host, firstNames(p.vms), name, all[i].Name, name, all[i].Name)
			return &f
		}
	}
	return nil
}

// vlanListContains reports whether a list such as "2 4 100-200" includes a VLAN.
func vlanListContains(list string, vlan int) bool {
	for part := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ' ' || r == ',' || r == ';' }) {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err == nil && err2 == nil && from <= vlan && vlan <= to {
			return true
		}
	}
	return false
}

// firstNames names the first few, and counts the rest.
func firstNames(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], ", "), len(names)-most+1)
}
