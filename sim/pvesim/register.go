package pvesim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

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
			"GET " + r.path:  r.unlessMigrated("index groups", func(c *call) (any, error) { return c.listEntries(r) }),
			"POST " + r.path: r.unlessMigrated("create group", func(c *call) (any, error) { return nil, c.addEntry(r) }),
			"GET " + one:     r.unlessMigrated("read group", func(c *call) (any, error) { return c.getEntry(r) }),
			"PUT " + one:     r.unlessMigrated("update group", func(c *call) (any, error) { return nil, c.changeEntry(r) }),
			"DELETE " + one:  r.unlessMigrated("delete group", func(c *call) (any, error) { return nil, c.deleteEntry(r) }),
		})
	}
	return out
}

// unlessMigrated refuses groups of high availability where rules have taken their
// place, which is where there are none (PVE/HA/Config.pm, have_groups_been_migrated).
func (r register) unlessMigrated(what string, h handler) handler {
	if r.id != "group" {
		return h
	}
	return func(c *call) (any, error) {
		if !c.s.before(9, 0) {
			return nil, die("cannot %s: ha groups have been migrated to rules", what)
		}
		return h(c)
	}
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
		out["type"] = r.kindOfID()
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
		if node := c.param("check-node"); node != "" {
			c.checkEntry(r, e, node)
		}
		out = append(out, e)
	}
	return out, nil
}

// checkEntry says what is wrong with a mapping on a node. Hosts have no USB devices
// here, and the folders that Debian has (PVE/Mapping/USB.pm, Dir.pm).
func (c *call) checkEntry(r register, e map[string]any, node string) {
	found, wrong := false, []mappingCheck{}
	list, _ := e["map"].([]string)
	for _, one := range list {
		props, err := parseProps(c.s.schema.Methods["POST "+r.path].Parameters["map"].Items.Format.Keys, one)
		if err != nil || props["node"] != node {
			continue
		}
		found = true
		if err := r.assertValid(props); err != nil {
			wrong = append(wrong, mappingCheck{"error", "Invalid configuration: " + err.Error() + "\n"})
		}
	}
	if !found {
		wrong = append(wrong, mappingCheck{"warning", "No mapping for node " + node + "."})
	}
	e[map[bool]string{true: "errors", false: "checks"}[r.kindOfID() == "usb"]] = wrong
}

// kindOfID is what a register's entries are called in errors.
func (r register) kindOfID() string { return r.path[strings.LastIndexByte(r.path, '/')+1:] }

// assertValid holds an entry of a mapping against its host.
func (r register) assertValid(props map[string]string) error {
	if r.kindOfID() == "usb" {
		return die("usb device '%s' not found", cmp.Or(props["path"], props["id"]))
	}
	path := strings.TrimRight(props["path"], "/")
	if !slices.Contains(rootFolders(), path) && !strings.HasPrefix(path, "/mnt/") && !strings.HasPrefix(path, "/var/lib/v") {
		return die("Path %s does not exist", props["path"])
	}
	return nil
}

// validMap refuses folders that are not there, and a node that is there twice (PVE/Mapping/Dir.pm).
func (c *call) validMap(r register) error {
	if r.kindOfID() != "dir" {
		return nil
	}
	count := map[string]int{}
	for _, one := range c.p["map"] {
		props, err := parseProps(c.s.schema.Methods["POST "+r.path].Parameters["map"].Items.Format.Keys, one)
		if err != nil {
			return err
		}
		if props["node"] == c.s.nodes()[0] {
			if err := r.assertValid(props); err != nil {
				return err
			}
		}
		count[props["node"]]++
	}
	for _, node := range slices.Sorted(maps.Keys(count)) {
		if count[node] > 1 {
			return die("Node '%s' is specified %d times.", node, count[node])
		}
	}
	return nil
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
	if kind, number, _ := strings.Cut(id, ":"); r.id == "sid" {
		switch there := c.s.vms[atoi(number)] != nil; {
		case !there:
			return die("resource '%s' does not exist in cluster", id)
		case kind == "ct":
			return die("resource '%s' - guest with ID %s is not a container", id, number)
		}
	}
	if c.s.entries(r)[id] != nil {
		switch r.id {
		case "group":
			return die("create ha group failed: ha group ID '%s' already defined", id)
		case "sid":
			return die("create resource failed: resource ID '%s' already defined", id)
		}
		return die("create %s failed: %s ID '%s' already defined", r.kind, r.kindOfID(), id)
	}
	if err := c.validMap(r); err != nil {
		return err
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
	if e == nil && r.id != "id" {
		return userConfig("update "+strings.Replace(r.kind, "resource", "resources config", 1)+" failed", c.noEntry(r, id))
	}
	what := "update " + strings.Replace(r.kind, "resource", "resources config", 1) + " failed"
	if d := c.param("digest"); d != "" && d != digestOf(c.s.entries(r)) {
		return userConfig(what, die("detected modified configuration - file changed by other user? Try again."))
	}
	if e == nil {
		return userConfig(what, die("%s ID '%s' does not exist", r.kindOfID(), id))
	}
	if r.acl != "" && !c.p.has("map") {
		return userConfig(what, die("missing value for required option 'map'"))
	}
	if err := c.validMap(r); err != nil {
		return userConfig(what, err)
	}
	for _, k := range splitList(c.param("delete")) {
		if c.s.schema.Methods["PUT "+r.path+"/{"+r.id+"}"].Parameters[k] == nil {
			return userConfig(what, die("no such option '%s'", k))
		}
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
