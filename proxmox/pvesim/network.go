package pvesim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
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

// interfaces are the network cards and bridges of a host, as its model has them.
func (h *host) interfaces() map[string]map[string]any {
	out := map[string]map[string]any{"eno1": {"iface": "eno1", "type": "eth", "active": 1, "exists": 1, "method": "manual", "method6": "manual",
		"families": []string{"inet"}, "priority": 3}}
	for i, b := range h.Bridges {
		e := map[string]any{"iface": b, "type": "bridge", "active": 1, "autostart": 1, "bridge_ports": "eno1", "bridge_stp": "off", "bridge_fd": "0",
			"method": "manual", "method6": "manual", "families": []string{"inet"}, "priority": 4 + i}
		h.address(e, b, i)
		if slices.Contains(h.NoPorts, b) {
			e["bridge_ports"] = ""
		}
		if slices.Contains(h.VLANAware, b) {
			e["bridge_vlan_aware"], e["bridge_vids"] = 1, "2-4094"
		}
		if vids := h.VIDs[b]; vids != "" {
			e["bridge_vids"] = vids
		}
		maps.Copy(e, h.made[b])
		out[b] = e
	}
	for name, e := range h.made {
		if out[name] == nil {
			out[name] = e
		}
	}
	return out
}

// address enters the host's own address on its i-th bridge, as /etc/network/interfaces
// has it.
func (h *host) address(e map[string]any, bridge string, i int) {
	cidr, said := h.CIDRs[bridge]
	if !said {
		cidr = fmt.Sprintf("192.0.2.%d/24", i+1)
	}
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return
	}
	e["method"], e["cidr"], e["address"], e["netmask"] = "static", cidr, p.Addr().String(), itoa(p.Bits())
	if gateway, err := netip.ParseAddr(h.Gateway); err == nil && p.Contains(gateway) {
		e["gateway"] = h.Gateway
	}
}

func (c *call) listNetwork() (any, error) {
	out := []any{}
	all := c.host().interfaces()
	for _, name := range sortedKeys(all) {
		e := all[name]
		kind, _ := e["type"].(string)
		want := c.param("type")
		if want != "" && want != kind && (kind != "bridge" || !strings.HasPrefix(want, "any_") && want != "include_sdn") {
			continue
		}
		if kind == "bridge" && !c.s.canAny(c.who, "/sdn/zones/localnetwork/"+name, "SDN.Audit", "SDN.Use") {
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) getInterface() (any, error) {
	e := c.host().interfaces()[c.param("iface")]
	if e == nil {
		return nil, badParam("iface", "interface does not exist")
	}
	e = maps.Clone(e)
	delete(e, "iface")
	return e, nil
}

// stage notes what an interface shall be when the network is applied.
func (c *call) stage(e map[string]any) {
	h := c.host()
	if h.staged == nil {
		h.staged = map[string]map[string]any{}
	}
	h.staged[c.param("iface")] = e
}

func (c *call) wantedInterface() map[string]any {
	e := map[string]any{"iface": c.param("iface"), "exists": 1, "active": 1, "method": "manual", "method6": "manual", "families": []string{"inet"}, "priority": 10}
	for k, v := range c.section() {
		e[k] = c.s.typedAs("POST /nodes/{node}/network", k, v)
	}
	if c.p.has("cidr") || c.p.has("address") {
		e["method"] = "static"
	}
	return e
}

func (c *call) createInterface() (any, error) {
	if c.host().interfaces()[c.param("iface")] != nil {
		return nil, badParam("iface", "interface already exists")
	}
	c.stage(c.wantedInterface())
	return nil, nil
}

func (c *call) updateInterface() (any, error) {
	old := c.host().interfaces()[c.param("iface")]
	if old == nil {
		old = c.host().staged[c.param("iface")]
	}
	if old == nil {
		return nil, badParam("iface", "interface does not exist")
	}
	e := maps.Clone(old)
	for _, k := range splitList(c.param("delete")) {
		delete(e, k)
	}
	maps.Copy(e, c.wantedInterface())
	c.stage(e)
	return nil, nil
}

func (c *call) deleteInterface() (any, error) {
	if c.host().interfaces()[c.param("iface")] == nil && c.host().staged[c.param("iface")] == nil {
		return nil, badParam("iface", "interface does not exist")
	}
	c.stage(nil)
	return nil, nil
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
		if h.made == nil {
			h.made = map[string]map[string]any{}
		}
		for name, e := range h.staged {
			h.Bridges = slices.DeleteFunc(slices.Clone(h.Bridges), func(b string) bool { return b == name })
			if e == nil {
				delete(h.made, name)
				continue
			}
			h.made[name] = e
			if e["type"] == "bridge" {
				h.Bridges = append(h.Bridges, name)
			}
		}
		h.staged = nil
		return nil
	})
}
