package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// register is a file of sections that the simulator keeps and does nothing with.
type register struct {
	path string // in the API
	id   string // parameter that names a section
	kind string // as errors name it
	acl  string // path under which entries may be seen; empty where the schema says it all
}

// entries are the sections of a register.
func (s *Sim) entries(r register) map[string]map[string][]string {
	if s.registers == nil {
		s.registers = map[string]map[string]map[string][]string{}
	}
	if s.registers[r.path] == nil {
		s.registers[r.path] = map[string]map[string][]string{}
	}
	return s.registers[r.path]
}

func registerHandlers() map[string]handler {
	out := map[string]handler{}
	for _, r := range []register{
		{"/cluster/mapping/usb", "id", "hardware mapping", "/mapping/usb/"},
		{"/cluster/mapping/dir", "id", "directory mapping", "/mapping/dir/"},
		{"/cluster/ha/groups", "group", "group", ""},
		{"/cluster/ha/resources", "sid", "resource", ""},
	} {
		one := r.path + "/{" + r.id + "}"
		maps.Copy(out, map[string]handler{
			"GET " + r.path:  func(c *call) (any, error) { return c.listEntries(r) },
			"POST " + r.path: func(c *call) (any, error) { return nil, c.addEntry(r) },
			"GET " + one:     func(c *call) (any, error) { return c.getEntry(r) },
			"PUT " + one:     func(c *call) (any, error) { return nil, c.changeEntry(r) },
			"DELETE " + one:  func(c *call) (any, error) { return nil, c.deleteEntry(r) },
		})
	}
	return out
}

// entryID is the section that a call is about. A bare VMID is that of a resource vm:ID.
func (c *call) entryID(r register) string {
	id := c.param(r.id)
	if r.id == "sid" && !strings.Contains(id, ":") {
		return "vm:" + id
	}
	return id
}

func (c *call) entry(r register, id string) map[string]any {
	entries := c.s.entries(r)
	out := map[string]any{r.id: id, "digest": digestOf(entries)}
	for k, v := range entries[id] {
		if p := c.s.schema.Methods["POST "+r.path].Parameters[k]; p != nil && p.Type == "array" {
			out[k] = v
		} else if len(v) > 0 {
			out[k] = c.s.typedAs("POST "+r.path, k, v[0])
		}
	}
	switch r.path {
	case "/cluster/ha/resources":
		out["type"], _, _ = strings.Cut(id, ":")
		if out["state"] == nil {
			out["state"] = "started"
		}
	case "/cluster/ha/groups":
		out["type"] = "group"
	default:
		out["type"] = r.path[strings.LastIndexByte(r.path, '/')+1:]
	}
	return out
}

func (c *call) listEntries(r register) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.entries(r))) {
		if r.acl != "" && !c.s.canAny(c.who, r.acl+id, "Mapping.Modify", "Mapping.Use", "Mapping.Audit") {
			continue
		}
		e := c.entry(r, id)
		if t := c.param("type"); t != "" && t != e["type"] {
			continue
		}
		if c.p.has("check-node") || strings.HasSuffix(r.path, "usb") {
			e[map[bool]string{true: "error", false: "checks"}[strings.HasSuffix(r.path, "usb")]] = []any{}
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) getEntry(r register) (any, error) {
	id := c.entryID(r)
	if c.s.entries(r)[id] == nil {
		return nil, c.noEntry(r, id)
	}
	e := c.entry(r, id)
	if r.acl != "" {
		delete(e, r.id)
	}
	return e, nil
}

func (c *call) noEntry(r register, id string) error {
	switch r.id {
	case "group":
		return die("no such ha group '%s'", id)
	case "sid":
		return die("no such resource '%s'", id)
	}
	return die("mapping '%s' not found", id)
}

func (c *call) addEntry(r register) error {
	id := c.entryID(r)
	if number, isVM := strings.CutPrefix(id, "vm:"); isVM && r.id == "sid" && c.s.vms[atoi(number)] == nil {
		return die("resource '%s' does not exist in cluster", id)
	}
	if c.s.entries(r)[id] != nil {
		switch r.id {
		case "group":
			return die("create ha group failed: ha group ID '%s' already defined", id)
		case "sid":
			return die("create resource failed: resource ID '%s' already defined", id)
		}
		return die("create %s failed: %s ID '%s' already defined", r.kind, r.path[strings.LastIndexByte(r.path, '/')+1:], id)
	}
	c.s.entries(r)[id] = c.entryParams(r)
	return nil
}

// entryParams are a call's parameters as its section keeps them.
func (c *call) entryParams(r register) map[string][]string {
	out := map[string][]string{}
	for k, v := range c.p {
		if k != r.id && k != "type" && k != "delete" && k != "digest" {
			out[k] = slices.Clone(v)
		}
	}
	return out
}

func (c *call) changeEntry(r register) error {
	id := c.entryID(r)
	e := c.s.entries(r)[id]
	if e == nil && r.id == "sid" {
		return die("update resources config failed: no such resource '%s'", id)
	}
	if e == nil {
		return c.noEntry(r, id)
	}
	if d := c.param("digest"); d != "" && d != digestOf(c.s.entries(r)) {
		return fmt.Errorf("update %s failed: %w", r.kind, die("detected modified configuration - file changed by other user? Try again."))
	}
	for _, k := range splitList(c.param("delete")) {
		delete(e, k)
	}
	maps.Copy(e, c.entryParams(r))
	return nil
}

// deleteEntry forgets a section, which need not be there but for a resource.
func (c *call) deleteEntry(r register) error {
	id := c.entryID(r)
	if r.id == "sid" && c.s.entries(r)[id] == nil {
		return die("cannot delete service '%s', not HA managed!", id)
	}
	delete(c.s.entries(r), id)
	if r.id == "sid" && (!c.p.has("purge") || c.p.bool("purge")) {
		c.s.leaveHARules(id)
	}
	return nil
}
