package labctl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Hardware is what the lab's hosts have of what cluster files need.
type Hardware struct {
	Hosts     []HostHardware `json:"hosts"`
	Templates []string       `json:"templates,omitempty"` // names and VMIDs
	Pools     []string       `json:"pools,omitempty"`     // resource pools
	Groups    []string       `json:"groups,omitempty"`    // security groups of the firewall
}

// HostHardware is what one host has.
type HostHardware struct {
	Name     string              `json:"name"`
	Cores    int                 `json:"cores"`
	Memory   int64               `json:"memory"` // that VMs can have, in bytes
	Spared   int64               `json:"spared"` // for the host, and for machines that are not the cluster's
	Bridges  []string            `json:"bridges,omitempty"`
	MTUs     map[string]int      `json:"mtus,omitempty"` // of bridges that have not the usual 1500
	Storages map[string][]string `json:"storages,omitempty"`
	GPUs     []HardwareGPU       `json:"gpus,omitempty"`
	Mappings map[string]int      `json:"mappings,omitempty"` // cards by mapping
	Devices  []string            `json:"devices,omitempty"`  // what nodes may name: addresses, vendors and devices, and mappings
	USB      []string            `json:"usb,omitempty"`      // the same: vendors and products with and without a port, and mappings
}

// HardwareGPU is a card.
type HardwareGPU struct {
	Address string `json:"address"` // e.g. "0000:01:00.0"
	Name    string `json:"name"`
}

// UsualMTU is the default MTU of a bridge.
const UsualMTU = 1500

// size writes bytes in whole GiB or MiB, as hosts have them.
func size(n int64) string {
	const mib, gib = 1 << 20, 1 << 30
	if n%gib == 0 {
		return fmt.Sprintf("%dGiB", n/gib)
	}
	return fmt.Sprintf("%dMiB", n/mib)
}

// Missing says what hardware lacks; nothing if the cluster can run on it.
func (n Needs) Missing(hw Hardware) []string {
	var out []string
	for _, want := range n.Hosts {
		i := slices.IndexFunc(hw.Hosts, func(h HostHardware) bool { return h.Name == want.Name })
		if i < 0 {
			out = append(out, fmt.Sprintf("there is no host %s", want.Name))
			continue
		}
		out = append(out, want.missing(hw.Hosts[i])...)
	}
	for _, t := range n.Templates {
		if !slices.Contains(hw.Templates, t) {
			out = append(out, fmt.Sprintf("there is no template %s", t))
		}
	}
	for _, pool := range n.Pools {
		if !slices.Contains(hw.Pools, pool) {
			out = append(out, fmt.Sprintf("there is no resource pool %s", pool))
		}
	}
	for _, group := range n.Groups {
		if !slices.Contains(hw.Groups, group) {
			out = append(out, "there is no security group "+group)
		}
	}
	return out
}

func (w HostNeeds) missing(h HostHardware) (out []string) {
	say := func(format string, args ...any) { out = append(out, h.Name+" "+fmt.Sprintf(format, args...)) }
	if cores := max(w.Cores, w.Declared.Cores); h.Cores < cores {
		say("has %d CPUs, and not %d", h.Cores, cores)
	}
	if wanted := max(w.Memory, w.Declared.Memory-h.Spared); h.Memory < wanted {
		say("has %s of memory to give, and not %s", size(h.Memory), size(wanted))
	}
	for _, bridge := range slices.Sorted(maps.Keys(w.Bridges)) {
		if !slices.Contains(h.Bridges, bridge) {
			say("has no bridge %s", bridge)
		}
		if have := max(h.MTUs[bridge], UsualMTU); have < w.MTUs[bridge] {
			say("has a bridge %s with an MTU of %d, and not %d", bridge, have, w.MTUs[bridge])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Storages)) {
		for _, content := range w.Storages[name] {
			if !slices.Contains(h.Storages[name], content) {
				say("has no storage %s for %s", name, content)
			}
		}
	}
	return append(out, w.missingCards(h)...)
}

func (w HostNeeds) missingCards(h HostHardware) (out []string) {
	say := func(format string, args ...any) { out = append(out, h.Name+" "+fmt.Sprintf(format, args...)) }
	if len(h.GPUs) < w.Cards {
		say("has %d GPUs, and not %d", len(h.GPUs), w.Cards)
	}
	for _, m := range w.Models {
		if !slices.ContainsFunc(h.GPUs, func(g HardwareGPU) bool {
			return strings.Contains(strings.ToLower(g.Name), strings.ToLower(m.Asked))
		}) {
			say("has no %s", m.Asked)
		}
	}
	for _, slot := range w.Slots {
		if !slices.ContainsFunc(h.GPUs, func(g HardwareGPU) bool { return strings.HasPrefix(g.Address, slot) }) {
			say("has no GPU at %s", slot)
		}
	}
	left := slices.Clone(h.Devices)
	for _, device := range w.Devices {
		if i := slices.Index(left, device); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			say("has no device %s left", device)
		}
	}
	for _, device := range w.USB {
		if !slices.Contains(h.USB, device) {
			say("has no USB device %s", device)
		}
	}
	wanted := map[string]int{}
	for _, id := range w.Mappings {
		wanted[id]++
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		switch have := h.Mappings[id]; {
		case have == 0:
			say("has no mapping %s", id)
		case have < wanted[id]:
			say("has %d cards in the mapping %s, and not %d", have, id, wanted[id])
		}
	}
	return out
}
