package pvesim

import (
	"maps"
	"slices"
)

func controllerHandlers() map[string]handler {
	const all, one = "/cluster/sdn/controllers", "/cluster/sdn/controllers/{controller}"
	return map[string]handler{
		"GET " + all:    (*call).listControllers,
		"POST " + all:   (*call).createController,
		"GET " + one:    (*call).getController,
		"PUT " + one:    (*call).updateController,
		"DELETE " + one: (*call).deleteController,
	}
}

// controller is one as it is read: the digest is that of the file, which what runs and
// what is pending are not.
func (c *call) controller(id string, e map[string]any) map[string]any {
	e = maps.Clone(e)
	e["controller"], e["digest"] = id, nil
	if !c.p.bool("pending") && !c.p.bool("running") {
		e["digest"] = digestOf(c.s.sdn.configured(sdnControllers))
	}
	return e
}

func (c *call) listControllers() (any, error) {
	out := []any{}
	all := c.read(sdnControllers)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		e := c.controller(id, all[id])
		if t := c.param("type"); t != "" && t != e["type"] || !c.s.canAny(c.who, "/sdn/controllers/"+id, "SDN.Audit", "SDN.Allocate") {
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

func noSDN(id string) error { return die("sdn '%s' does not exist", id) }

func (c *call) getController() (any, error) {
	id := c.param("controller")
	e := c.read(sdnControllers)[id]
	if e == nil {
		return nil, noSDN(id)
	}
	return c.controller(id, e), nil
}

// controllerSection is what a call sets in a section, as its file holds it.
func (c *call) controllerSection() map[string]string {
	out := c.section("controller", "type", "lock-token")
	if c.p.has("node") { // elsewhere it is where a call goes
		out["node"] = c.param("node")
	}
	return out
}

func (c *call) createController() (any, error) {
	id, kind := c.param("controller"), c.param("type")
	section := c.controllerSection()
	if err := sectionTypeOf("controller", kind).check(section, true); err != nil {
		return nil, err
	}
	return nil, c.inSDN("create sdn controller object failed", func() error {
		if c.s.sdn.configured(sdnControllers)[id] != nil {
			return die("sdn controller object ID '%s' already defined", id)
		}
		return c.putController(id, map[string]any{"type": kind}, section)
	})
}

func (c *call) updateController() (any, error) {
	id := c.param("controller")
	return nil, c.inSDN("update sdn controller object failed", func() error {
		all := c.s.sdn.configured(sdnControllers)
		if err := c.checkDigest(digestOf(all)); err != nil {
			return err
		}
		if all[id] == nil {
			return noSDN(id)
		}
		kind, _ := all[id]["type"].(string)
		section, remove := c.controllerSection(), splitList(c.param("delete"))
		about := sectionTypeOf("controller", kind)
		if err := about.check(section, false); err != nil {
			return err
		}
		if err := about.checkDelete(remove, section); err != nil {
			return err
		}
		e := maps.Clone(all[id])
		for _, k := range remove {
			delete(e, k)
		}
		return c.putController(id, e, section)
	})
}

// putController writes a section, unless it does not go with the others
// (PVE/Network/SDN/Controllers/EvpnPlugin.pm, on_update_hook).
func (c *call) putController(id string, e map[string]any, section map[string]string) error {
	const plugin = " at /usr/share/perl5/PVE/Network/SDN/Controllers/EvpnPlugin.pm line "
	for k, v := range section {
		e[k] = c.s.typedAs("POST /cluster/sdn/controllers", k, v)
	}
	all := c.s.sdn.configured(sdnControllers)
	if e["type"] == "evpn" {
		for other, o := range all {
			if other != id && o["type"] == "evpn" {
				return die("only 1 global evpn controller can be defined" + plugin + "491.")
			}
		}
		if (e["peers"] == nil) == (e["fabric"] == nil) {
			return die("must have exactly one of peers / fabric defined" + plugin + "498.")
		}
	}
	all[id] = e
	return nil
}

func (c *call) deleteController() (any, error) {
	id := c.param("controller")
	return nil, c.inSDN("delete sdn controller object failed", func() error {
		all := c.s.sdn.configured(sdnControllers)
		if all[id] == nil {
			return noSDN(id)
		}
		delete(all, id)
		return nil
	})
}
