package nodes

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/networkfile"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func networkHandlers() map[string]world.Handler {
	const network = "/nodes/{node}/network"
	return map[string]world.Handler{
		"GET " + network:                 listNetwork,
		"POST " + network:                createInterface,
		"PUT " + network:                 applyNetwork,
		"DELETE " + network:              revertNetwork,
		"GET " + network + "/{iface}":    getInterface,
		"PUT " + network + "/{iface}":    updateInterface,
		"DELETE " + network + "/{iface}": deleteInterface,
	}
}

// Network is what a host's file of interfaces says now; staged is what it shall say
// when it is applied, and nil where nobody has changed anything.
func Network(h *world.Host) networkfile.Interfaces {
	if h.Interfaces != nil {
		return h.Interfaces
	}
	out := networkfile.Interfaces{"eno1": {"type": "eth"}}
	for i, b := range h.Bridges {
		card := "eno" + strconv.Itoa(i+1)
		e := map[string]string{"type": "bridge", "autostart": "1", "bridge_ports": card}
		address(h, e, b, i)
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
	for name, e := range h.Links {
		if out[name] == nil {
			out[name] = map[string]string{}
		}
		maps.Copy(out[name], e)
	}
	h.Interfaces = out.WithPriorities()
	return h.Interfaces
}

// address enters the host's own address on its i-th bridge.
func address(h *world.Host, e map[string]string, bridge string, i int) {
	cidr, said := h.CIDRs[bridge]
	if !said {
		cidr = h.MadeUp(i) + "/24"
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
func wantedNetwork(h *world.Host) networkfile.Interfaces {
	if h.Staged != nil {
		return h.Staged
	}
	return Network(h)
}

// placeName is what udev calls an interface by its place.
func placeName(h *world.Host, name string) string {
	for _, d := range h.Devices {
		if d.Interface == name {
			return d.PlaceName(h.Devices[strings.TrimSuffix(d.Address, "0")+"1"] != nil)
		}
	}
	return ""
}

func listNetwork(c *world.Call) (any, error) {
	h := c.Host()
	all := read(h, wantedNetwork(h))
	out, want := []any{}, c.Param("type")
	if want == "any_bridge" || want == "include_sdn" || want == "vnet" {
		maps.Copy(all, vnets(c))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		kind, _ := e["type"].(string)
		bridge := kind == "bridge" || kind == "OVSBridge" || kind == "vnet"
		any := bridge && (want == "any_bridge" || want == "any_local_bridge")
		if want != "" && want != "include_sdn" && want != kind && !any {
			continue
		}
		if bridge && !access.CanAny(c.State, c.Who, zonePath(c.State, name), "SDN.Audit", "SDN.Use") {
			continue
		}
		e["iface"] = name
		if other := placeName(h, name); other != "" && other != name && !release.Before(c.State, 9, 0) {
			e["altnames"] = []string{other}
		}
		out = append(out, e)
	}
	if h.Staged == nil {
		return out, nil
	}
	return answer.DataWithDiff{Data: out, Diff: unifiedDiff("/etc/network/interfaces", Network(h).Text(), h.Staged.Text())}, nil
}

func getInterface(c *world.Call) (any, error) {
	h := c.Host()
	e := read(h, wantedNetwork(h))[c.Param("iface")]
	if e == nil {
		return nil, answer.BadParam("iface", "interface does not exist")
	}
	return e, nil
}

// stage writes down what the interfaces shall be when the network is applied.
func stage(c *world.Call, name string, e map[string]string) error {
	h := c.Host()
	next := maps.Clone(wantedNetwork(h))
	if e == nil {
		delete(next, name)
	} else {
		next[name] = e
	}
	if err := next.Check(); err != nil {
		return err
	}
	h.Staged = next.WithPriorities()
	return nil
}

// givenInterface is what a call says of an interface, an address as one with its length.
func givenInterface(c *world.Call) (map[string]string, error) {
	e := c.Section("iface")
	for _, six := range []string{"", "6"} {
		if e["cidr"+six] != "" {
			for _, k := range []string{"address", "netmask"} {
				if e[k+six] != "" {
					return nil, answer.BadParam(k+six, k+six+" conflicts with cidr"+six)
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
		if len(schema.SplitList(vids)) == 0 {
			return nil, answer.BadParam("bridge_vids", "VLAN list items are empty")
		}
		e["bridge_vids"] = strings.Join(schema.SplitList(vids), " ")
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
		return fmt.Sprintf("%s/%d", a, strings.Count(schema.BitsOf(m), "1"))
	}
	if mask == "" {
		mask = strconv.Itoa(a.BitLen())
	}
	return address + "/" + mask
}

func createInterface(c *world.Call) (any, error) {
	all, name := wantedNetwork(c.Host()), c.Param("iface")
	if all[name] != nil {
		return nil, answer.BadParam("iface", "interface already exists")
	}
	e, err := givenInterface(c)
	if err == nil {
		err = all.Conflicts(name, e)
	}
	if err == nil && strings.HasPrefix(e["type"], "OVS") {
		err = answer.Die("Open VSwitch is not installed (need package 'openvswitch-switch')")
	}
	if err != nil {
		return nil, err
	}
	return nil, stage(c, name, e)
}

func updateInterface(c *world.Call) (any, error) {
	all, name := wantedNetwork(c.Host()), c.Param("iface")
	if all[name] == nil {
		return nil, answer.BadParam("iface", "interface does not exist")
	}
	e := maps.Clone(all[name])
	for _, k := range schema.SplitList(c.Param("delete")) {
		delete(e, k)
		if k == "address" || k == "address6" {
			delete(e, strings.Replace(k, "address", "cidr", 1))
		}
	}
	given, err := givenInterface(c)
	if err == nil {
		err = all.Conflicts(name, given)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(e, given)
	return nil, stage(c, name, e)
}

func deleteInterface(c *world.Call) (any, error) {
	if wantedNetwork(c.Host())[c.Param("iface")] == nil {
		return nil, answer.BadParam("iface", "interface does not exist")
	}
	return nil, stage(c, c.Param("iface"), nil)
}

func revertNetwork(c *world.Call) (any, error) {
	c.Host().Staged = nil
	return nil, nil
}

// applyNetwork is `ifreload -a`: what was staged becomes so.
func applyNetwork(c *world.Call) (any, error) {
	h := c.Host()
	return c.StartTask("srvreload", "networking", func(w world.Worker) error {
		if err := w.Sleep(w.State.Options.Timing.Configure); err != nil {
			return err
		}
		if h.Staged == nil {
			return nil
		}
		h.Interfaces, h.Staged = h.Staged, nil
		h.Bridges = nil
		for _, name := range slices.Sorted(maps.Keys(h.Interfaces)) {
			if kind := h.Interfaces[name]["type"]; kind == "bridge" || kind == "OVSBridge" {
				h.Bridges = append(h.Bridges, name)
			}
		}
		return nil
	})
}
