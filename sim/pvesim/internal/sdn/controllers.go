package sdn

import (
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func controllerHandlers() map[string]world.Handler {
	const all, one = "/cluster/sdn/controllers", "/cluster/sdn/controllers/{controller}"
	return map[string]world.Handler{
		"GET " + all:    listControllers,
		"POST " + all:   createController,
		"GET " + one:    getController,
		"PUT " + one:    updateController,
		"DELETE " + one: deleteController,
	}
}

// controller is one as it is read: the digest is that of the file, which what runs and
// what is pending are not.
func controller(c *world.Call, id string, e map[string]any) map[string]any {
	e = maps.Clone(e)
	e["controller"], e["digest"] = id, nil
	if !c.Params.Bool("pending") && !c.Params.Bool("running") {
		e["digest"] = world.DigestOf(c.State.SDN.ConfigSections(sdnControllers))
	}
	return e
}

func listControllers(c *world.Call) (any, error) {
	out := []any{}
	all := read(c, sdnControllers)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		e := controller(c, id, all[id])
		if t := c.Param("type"); t != "" && t != e["type"] ||
			!access.CanAny(c.State, c.Who, "/sdn/controllers/"+id, "SDN.Audit", "SDN.Allocate") {
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

func noSDN(id string) error { return answer.Die("sdn '%s' does not exist", id) }

func getController(c *world.Call) (any, error) {
	id := c.Param("controller")
	e := read(c, sdnControllers)[id]
	if e == nil {
		return nil, noSDN(id)
	}
	return controller(c, id, e), nil
}

// controllerSection is what a call sets in a section, as its file holds it.
func controllerSection(c *world.Call) map[string]string {
	out := c.Section("controller", "type", "lock-token")
	if c.Params.Has("node") { // elsewhere it is where a call goes
		out["node"] = c.Param("node")
	}
	return out
}

func createController(c *world.Call) (any, error) {
	id, kind := c.Param("controller"), c.Param("type")
	section := controllerSection(c)
	if err := schema.SectionOf("controller", kind).Check(section, true); err != nil {
		return nil, err
	}
	return nil, inSDN(c, "create sdn controller object failed", func() error {
		if c.State.SDN.ConfigSections(sdnControllers)[id] != nil {
			return answer.Die("sdn controller object ID '%s' already defined", id)
		}
		return putController(c, id, map[string]any{"type": kind}, section)
	})
}

func updateController(c *world.Call) (any, error) {
	id := c.Param("controller")
	return nil, inSDN(c, "update sdn controller object failed", func() error {
		all := c.State.SDN.ConfigSections(sdnControllers)
		if err := c.CheckDigest(world.DigestOf(all)); err != nil {
			return err
		}
		if all[id] == nil {
			return noSDN(id)
		}
		kind, _ := all[id]["type"].(string)
		section, remove := controllerSection(c), schema.SplitList(c.Param("delete"))
		about := schema.SectionOf("controller", kind)
		if err := about.Check(section, false); err != nil {
			return err
		}
		if err := about.CheckDelete(remove, section); err != nil {
			return err
		}
		e := maps.Clone(all[id])
		for _, k := range remove {
			delete(e, k)
		}
		return putController(c, id, e, section)
	})
}

// putController writes a section, unless it does not go with the others
// (PVE/Network/SDN/Controllers/EvpnPlugin.pm, on_update_hook).
func putController(c *world.Call, id string, e map[string]any, section map[string]string) error {
	const plugin = " at /usr/share/perl5/PVE/Network/SDN/Controllers/EvpnPlugin.pm line "
	for k, v := range section {
		e[k] = c.State.TypedAs("POST /cluster/sdn/controllers", k, v)
	}
	all := c.State.SDN.ConfigSections(sdnControllers)
	if e["type"] == "evpn" {
		for other, o := range all {
			if other != id && o["type"] == "evpn" {
				return answer.Die("only 1 global evpn controller can be defined" + plugin + "491.")
			}
		}
		if (e["peers"] == nil) == (e["fabric"] == nil) {
			return answer.Die("must have exactly one of peers / fabric defined" + plugin + "498.")
		}
	}
	all[id] = e
	return nil
}

func deleteController(c *world.Call) (any, error) {
	id := c.Param("controller")
	return nil, inSDN(c, "delete sdn controller object failed", func() error {
		all := c.State.SDN.ConfigSections(sdnControllers)
		if all[id] == nil {
			return noSDN(id)
		}
		delete(all, id)
		return nil
	})
}
