package draft

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// What was found on the hosts and not chosen is written as comments, each with its key: without the #, and instead of the
// line of the same key, it is valid.

// bridges writes the nodes' bridge and its VLAN, and the others.
func (w *writer) bridges() {
	chosen := w.answers.Bridge
	told := map[string]bool{chosen: true}
	var others []proxmox.Bridge
	var own proxmox.Bridge
	for _, h := range w.layout.hosts {
		for _, b := range h.Bridges {
			switch {
			case b.Name == chosen:
				own = b
			case !told[b.Name] && bridgeSyntax.MatchString(b.Name):
				told[b.Name], others = true, append(others, b)
			}
		}
	}
	w.line("  bridge: %s%s", scalar(chosen), remark(describe(own)))
	for _, b := range others {
		w.line("  # bridge: %s%s", scalar(b.Name), remark(append(describe(b), cmp.Or(b.CIDR, "with its own prefix and gateway"))))
	}
	switch {
	case w.answers.VLAN > 0:
		w.line("  vlan: %d # in which the hosts have their addresses", w.answers.VLAN)
	case own.VLANAware && own.Type != "vnet", own.Type == "OVSBridge":
		w.line("  # vlan: 100 # a VLAN of %s, with its own prefix and gateway", chosen)
	}
}

// describe says what a bridge is, where that is not the usual.
func describe(b proxmox.Bridge) (out []string) {
	switch b.Type {
	case "vnet":
		out = append(out, "a VNet of Proxmox's SDN")
	case "OVSBridge":
		out = append(out, "Open vSwitch")
	}
	for _, p := range b.Ports {
		if strings.HasPrefix(p, "bond") || strings.Contains(p, ".") {
			out = append(out, "over "+p)
		}
	}
	if b.VLANAware {
		out = append(out, strings.TrimSpace("VLANs "+b.VIDs))
	}
	if b.MTU > 1500 {
		out = append(out, fmt.Sprintf("MTU %d, which its cards get", b.MTU))
	}
	return out
}

// remark is a comment behind a line.
func remark(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return " # " + strings.Join(words, ", ")
}

// defaults writes the storage of disks, and what else all nodes may get.
func (w *writer) defaults(storage string) {
	if storage == "" {
		return
	}
	w.line("defaults:")
	thick := ""
	var others []string
	for _, s := range diskStorages(w.layout.hosts[0]) {
		switch {
		case s.Name == storage && s.IsThick():
			thick = "; LVM without thin provisioning: each node is a whole copy of the template"
		case s.Name == storage, slices.ContainsFunc(w.layout.hosts, func(h Host) bool {
			return !slices.ContainsFunc(diskStorages(h), func(o proxmox.Storage) bool { return o.Name == s.Name })
		}):
		default:
			others = append(others, fmt.Sprintf("  # storage: %s # %s, %s free", scalar(s.Name), s.Type, floorGiB(s.Free)))
		}
	}
	w.line("  storage: %s # of disks%s", scalar(storage), thick)
	for _, line := range others {
		w.line("%s", line)
	}
	for _, pool := range w.found.Pools {
		w.line("  # resourcePool: %s", scalar(pool))
	}
	w.line("")
}

// keySyntax is what a card or a device can be called.
var keySyntax = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)

// cardsAndDevices writes further network cards of a pool's nodes, on bridges in whose networks the hosts are, and what else
// can be passed through to them.
func (w *writer) cardsAndDevices(p pool) {
	at := slices.IndexFunc(w.layout.hosts, func(h Host) bool { return h.Name == p.hosts[0] })
	h := w.layout.hosts[at]
	var cards []string
	for _, b := range h.Bridges {
		prefix, err := netip.ParsePrefix(b.CIDR)
		if err != nil || b.Name == w.answers.Bridge || !prefix.Addr().Is4() || !isPrivate(b) || !keySyntax.MatchString(b.Name) {
			continue
		}
		vlan := ""
		if n := h.VLANs[b.Name]; n > 0 {
			vlan = fmt.Sprintf(", vlan: %d", n)
		}
		if free := w.take(prefix, p.count()); len(free) == p.count() {
			cards = append(cards, fmt.Sprintf("    #   %s: {bridge: %[1]s%s, prefix: %s, addresses: [%s]}%s", b.Name, vlan, prefix.Masked(), ranges(free), remark(describe(b))))
		}
	}
	w.section("    # networks: # further cards", cards)
	var devices []string
	for i, d := range h.Devices {
		if p.server || d.Count-w.given[h.Name+d.Is] < p.count() {
			continue
		}
		w.given[h.Name+d.Is] += p.count()
		name := d.Is
		if !keySyntax.MatchString(name) {
			name = fmt.Sprintf("device%d", i+1)
		}
		devices = append(devices, fmt.Sprintf("    #   %s: {%s: %s} # %s", name, d.Bus, scalar(d.Is), d.What))
	}
	w.section("    # devices: # that are ready to be passed through", devices)
}

// section writes lines below a head, if there are some.
func (w *writer) section(head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	w.line("%s", head)
	for _, line := range lines {
		w.line("%s", line)
	}
}

// take finds addresses that nobody is known to have, each for one card.
func (w *writer) take(in netip.Prefix, n int) (out []netip.Addr) {
	for at := firstOf(in); isHost(in, at) && len(out) < n; at = at.Next() {
		if w.found.Used[at] == "" && w.given[at.String()] == 0 {
			w.given[at.String()]++
			out = append(out, at)
		}
	}
	return out
}
