package pvesim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func networkHandlers() map[string]handler {
	const network = "/nodes/{node}/network"
	return map[string]handler{
		"GET " + network:                 (*call).listNetwork,
		"POST " + network:                (*call).createInterface,
		"PUT " + network:                 (*call).applyNetwork,
		"DELETE " + network:              (*call).revertNetwork,
		"GET " + network + "/{iface}":    (*call).getInterface,
		"PUT " + network + "/{iface}":    (*call).updateInterface,
		"DELETE " + network + "/{iface}": (*call).deleteInterface,
	}
}

// network is what a host's file of interfaces says now; staged is what it shall say
// when it is applied, and nil where nobody has changed anything.
func (h *host) network() interfaces {
	if h.made != nil {
		return h.made
	}
	out := interfaces{"eno1": {"type": "eth"}}
	for i, b := range h.Bridges {
		card := "eno" + strconv.Itoa(i+1)
		e := map[string]string{"type": "bridge", "autostart": "1", "bridge_ports": card}
		h.address(e, b, i)
		if slices.Contains(h.NoPorts, b) {
			e["bridge_ports"] = ""
		} else {
			out[card] = map[string]string{"type": "eth"}
		}
		if slices.Contains(h.VLANAware, b) {
			e["bridge_vlan_aware"], e["bridge_vids"] = "1", "2-4094"
		}
		if mtu := h.MTUs[b]; mtu != 0 {
			e["mtu"] = strconv.Itoa(mtu)
		}
		if vids := h.VIDs[b]; vids != "" {
			e["bridge_vids"] = vids
		}
		out[b] = e
	}
	h.made = out.numbered()
	return h.made
}

// address enters the host's own address on its i-th bridge.
func (h *host) address(e map[string]string, bridge string, i int) {
	cidr, said := h.CIDRs[bridge]
	if !said {
		cidr = h.madeUp(i) + "/24"
	}
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return
	}
	e["cidr"] = cidr
	if gateway, err := netip.ParseAddr(h.Gateway); err == nil && p.Contains(gateway) {
		e["gateway"] = h.Gateway
	}
}

// wantedNetwork is what the file shall say: what is staged, else what it says now.
func (h *host) wantedNetwork() interfaces {
	if h.staged != nil {
		return h.staged
	}
	return h.network()
}

func (c *call) listNetwork() (any, error) {
	h := c.host()
	all := h.read(h.wantedNetwork())
	out, want := []any{}, c.param("type")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		kind, _ := e["type"].(string)
		bridge := kind == "bridge" || kind == "OVSBridge"
		any := bridge && (want == "any_bridge" || want == "any_local_bridge")
		if want != "" && want != "include_sdn" && want != kind && !any {
			continue
		}
		if bridge && !c.s.canAny(c.who, "/sdn/zones/localnetwork/"+name, "SDN.Audit", "SDN.Use") {
			continue
		}
		e["iface"] = name
		out = append(out, e)
	}
	if h.staged == nil {
		return out, nil
	}
	return changed{out, unifiedDiff("/etc/network/interfaces", h.network().text(), h.staged.text())}, nil
}

func (c *call) getInterface() (any, error) {
	h := c.host()
	e := h.read(h.wantedNetwork())[c.param("iface")]
	if e == nil {
		return nil, badParam("iface", "interface does not exist")
	}
	return e, nil
}

// stage writes down what the interfaces shall be when the network is applied.
func (c *call) stage(name string, e map[string]string) error {
	h := c.host()
	next := maps.Clone(h.wantedNetwork())
	if e == nil {
		delete(next, name)
	} else {
		next[name] = e
	}
	if err := next.check(); err != nil {
		return err
	}
	h.staged = next.numbered()
	return nil
}

// givenInterface is what a call says of an interface, an address as one with its length.
func (c *call) givenInterface() (map[string]string, error) {
	e := c.section("iface")
	for _, six := range []string{"", "6"} {
		if e["cidr"+six] != "" {
			for _, k := range []string{"address", "netmask"} {
				if e[k+six] != "" {
					return nil, badParam(k+six, k+six+" conflicts with cidr"+six)
				}
			}
			continue
		}
		if a := e["address"+six]; a != "" {
			e["cidr"+six] = withLength(a, e["netmask"+six])
		}
		delete(e, "address"+six)
		delete(e, "netmask"+six)
	}
	if vids, given := e["bridge_vids"]; given {
		if len(splitList(vids)) == 0 {
			return nil, badParam("bridge_vids", "VLAN list items are empty")
		}
		e["bridge_vids"] = strings.Join(splitList(vids), " ")
	}
	return e, nil
}

// withLength is an address with the length of its network, which may be a mask.
func withLength(address, mask string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if m, err := netip.ParseAddr(mask); err == nil {
		return fmt.Sprintf("%s/%d", a, strings.Count(bitsOf(m), "1"))
	}
	if mask == "" {
		mask = strconv.Itoa(a.BitLen())
	}
	return address + "/" + mask
}

func (c *call) createInterface() (any, error) {
	all, name := c.host().wantedNetwork(), c.param("iface")
	if all[name] != nil {
		return nil, badParam("iface", "interface already exists")
	}
	e, err := c.givenInterface()
	if err == nil {
		err = all.conflicts(name, e)
	}
	if err == nil && strings.HasPrefix(e["type"], "OVS") {
		err = die("Open VSwitch is not installed (need package 'openvswitch-switch')")
	}
	if err != nil {
		return nil, err
	}
	return nil, c.stage(name, e)
}

func (c *call) updateInterface() (any, error) {
	all, name := c.host().wantedNetwork(), c.param("iface")
	if all[name] == nil {
		return nil, badParam("iface", "interface does not exist")
	}
	e := maps.Clone(all[name])
	for _, k := range splitList(c.param("delete")) {
		delete(e, k)
		if k == "address" || k == "address6" {
			delete(e, strings.Replace(k, "address", "cidr", 1))
		}
	}
	given, err := c.givenInterface()
	if err == nil {
		err = all.conflicts(name, given)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(e, given)
	return nil, c.stage(name, e)
}

func (c *call) deleteInterface() (any, error) {
	if c.host().wantedNetwork()[c.param("iface")] == nil {
		return nil, badParam("iface", "interface does not exist")
	}
	return nil, c.stage(c.param("iface"), nil)
}

func (c *call) revertNetwork() (any, error) {
	c.host().staged = nil
	return nil, nil
}

// applyNetwork is `ifreload -a`: what was staged becomes so.
func (c *call) applyNetwork() (any, error) {
	h := c.host()
	return c.startTask("srvreload", "networking", func(w worker) error {
		if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
			return err
		}
		if h.staged == nil {
			return nil
		}
		h.made, h.staged = h.staged, nil
		h.Bridges = nil
		for _, name := range slices.Sorted(maps.Keys(h.made)) {
			if h.made[name]["type"] == "bridge" {
				h.Bridges = append(h.Bridges, name)
			}
		}
		return nil
	})
}
