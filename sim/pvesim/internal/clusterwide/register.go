package clusterwide

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func registerHandlers() map[string]world.Handler {
	out := map[string]world.Handler{}
	for _, r := range []world.Register{
		pci.USBRegister(),
		{Path: "/cluster/mapping/dir", ID: "id", Kind: "directory mapping", ACL: "/mapping/dir/"},
		{Path: "/cluster/ha/groups", ID: "group", Kind: "group", ACL: ""},
		{Path: "/cluster/ha/resources", ID: "sid", Kind: "resource", ACL: ""},
	} {
		one := r.Path + "/{" + r.ID + "}"
		maps.Copy(out, map[string]world.Handler{
			"GET " + r.Path:  unlessMigrated(r, "index groups", func(c *world.Call) (any, error) { return listEntries(c, r) }),
			"POST " + r.Path: unlessMigrated(r, "create group", func(c *world.Call) (any, error) { return nil, addEntry(c, r) }),
			"GET " + one:     unlessMigrated(r, "read group", func(c *world.Call) (any, error) { return getEntry(c, r) }),
			"PUT " + one:     unlessMigrated(r, "update group", func(c *world.Call) (any, error) { return nil, changeEntry(c, r) }),
			"DELETE " + one:  unlessMigrated(r, "delete group", func(c *world.Call) (any, error) { return nil, deleteEntry(c, r) }),
		})
	}
	return out
}

// unlessMigrated refuses groups of high availability where rules have taken their
// place, which is where there are none (PVE/HA/Config.pm, have_groups_been_migrated).
func unlessMigrated(r world.Register, what string, h world.Handler) world.Handler {
	if r.ID != "group" {
		return h
	}
	return func(c *world.Call) (any, error) {
		if !release.Before(c.State, 9, 0) {
			return nil, answer.Die("cannot %s: ha groups have been migrated to rules", what)
		}
		return h(c)
	}
}

// entryID is the section that a call is about. A bare VMID is that of a resource vm:ID.
func entryID(c *world.Call, r world.Register) string {
	id := c.Param(r.ID)
	if r.ID == "sid" && !strings.Contains(id, ":") {
		return "vm:" + id
	}
	return id
}

func entry(c *world.Call, r world.Register, id string) map[string]any {
	entries := c.State.Entries(r)
	out := map[string]any{r.ID: id, "digest": world.DigestOf(entries)}
	for k, v := range entries[id] {
		if p := c.State.Schema.Methods["POST "+r.Path].Parameters[k]; p != nil && p.Type == "array" {
			out[k] = v
		} else if len(v) > 0 {
			out[k] = c.State.TypedAs("POST "+r.Path, k, v[0])
		}
	}
	switch r.Path {
	case "/cluster/ha/resources":
		out["type"], _, _ = strings.Cut(id, ":")
		if out["state"] == nil {
			out["state"] = "started"
		}
	case "/cluster/ha/groups":
		out["type"] = "group"
	default:
		out["type"] = kindOfID(r)
	}
	return out
}

func listEntries(c *world.Call, r world.Register) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Entries(r))) {
		if r.ACL != "" && !access.CanAny(c.State, c.Who, r.ACL+id, "Mapping.Modify", "Mapping.Use", "Mapping.Audit") {
			continue
		}
		e := entry(c, r, id)
		if t := c.Param("type"); t != "" && t != e["type"] {
			continue
		}
		if node := c.Param("check-node"); node != "" {
			checkEntry(c, r, e, node)
		}
		out = append(out, e)
	}
	return out, nil
}

// checkEntry says what is wrong with a mapping on a node. Hosts have the folders that Debian has
// (PVE/Mapping/USB.pm, Dir.pm).
func checkEntry(c *world.Call, r world.Register, e map[string]any, node string) {
	found, wrong := false, []pci.Check{}
	list, _ := e["map"].([]string)
	id, _ := e[r.ID].(string)
	for _, one := range list {
		props, err := schema.ParseProps(c.State.Schema.Methods["POST "+r.Path].Parameters["map"].Items.Format.Keys, one)
		if err != nil || props["node"] != node {
			continue
		}
		found = true
		if err := assertValid(c, r, id, props); err != nil {
			wrong = append(wrong, pci.Check{Severity: "error", Message: "Invalid configuration: " + err.Error() + "\n"})
		}
	}
	if !found {
		wrong = append(wrong, pci.Check{Severity: "warning", Message: "No mapping for node " + node + "."})
	}
	e[map[bool]string{true: "errors", false: "checks"}[kindOfID(r) == "usb"]] = wrong
}

// kindOfID is what a register's entries are called in errors.
func kindOfID(r world.Register) string { return r.Path[strings.LastIndexByte(r.Path, '/')+1:] }

// assertValid holds an entry of a mapping against its host.
func assertValid(c *world.Call, r world.Register, id string, props map[string]string) error {
	if kindOfID(r) == "usb" {
		return pci.ValidUSB(c.State.Hosts[props["node"]], id, props)
	}
	path := strings.TrimRight(props["path"], "/")
	if !slices.Contains(storages.RootFolders(), path) && !strings.HasPrefix(path, "/mnt/") && !strings.HasPrefix(path, "/var/lib/v") {
		return answer.Die("Path %s does not exist", props["path"])
	}
	return nil
}

// validMap refuses folders that are not there, and a node that is there twice (PVE/Mapping/Dir.pm).
func validMap(c *world.Call, r world.Register) error {
	if kindOfID(r) != "dir" {
		return nil
	}
	count := map[string]int{}
	for _, one := range c.Params["map"] {
		props, err := schema.ParseProps(c.State.Schema.Methods["POST "+r.Path].Parameters["map"].Items.Format.Keys, one)
		if err != nil {
			return err
		}
		if props["node"] == c.State.Nodes()[0] {
			if err := assertValid(c, r, "", props); err != nil {
				return err
			}
		}
		count[props["node"]]++
	}
	for _, node := range slices.Sorted(maps.Keys(count)) {
		if count[node] > 1 {
			return answer.Die("Node '%s' is specified %d times.", node, count[node])
		}
	}
	return nil
}

func getEntry(c *world.Call, r world.Register) (any, error) {
	id := entryID(c, r)
	if c.State.Entries(r)[id] == nil {
		return nil, noEntry(c, r, id)
	}
	e := entry(c, r, id)
	if r.ACL != "" {
		delete(e, r.ID)
	}
	return e, nil
}

func noEntry(c *world.Call, r world.Register, id string) error {
	switch r.ID {
	case "group":
		return answer.Die("no such ha group '%s'", id)
	case "sid":
		return answer.Die("no such resource '%s'", id)
	}
	return answer.Die("mapping '%s' not found", id)
}

func addEntry(c *world.Call, r world.Register) error {
	id := entryID(c, r)
	if kind, number, _ := strings.Cut(id, ":"); r.ID == "sid" {
		switch there := c.State.VMs[schema.Atoi(number)] != nil; {
		case !there:
			return answer.Die("resource '%s' does not exist in cluster", id)
		case kind == "ct":
			return answer.Die("resource '%s' - guest with ID %s is not a container", id, number)
		}
	}
	if c.State.Entries(r)[id] != nil {
		switch r.ID {
		case "group":
			return answer.Die("create ha group failed: ha group ID '%s' already defined", id)
		case "sid":
			return answer.Die("create resource failed: resource ID '%s' already defined", id)
		}
		return answer.Die("create %s failed: %s ID '%s' already defined", r.Kind, kindOfID(r), id)
	}
	if err := validMap(c, r); err != nil {
		return err
	}
	c.State.Entries(r)[id] = entryParams(c, r)
	return nil
}

// entryParams are a call's parameters as its section keeps them.
func entryParams(c *world.Call, r world.Register) map[string][]string {
	out := map[string][]string{}
	for k, v := range c.Params {
		if k != r.ID && k != "type" && k != "delete" && k != "digest" {
			out[k] = slices.Clone(v)
		}
	}
	return out
}

func changeEntry(c *world.Call, r world.Register) error {
	id := entryID(c, r)
	e := c.State.Entries(r)[id]
	if e == nil && r.ID != "id" {
		return answer.UserConfig("update "+strings.Replace(r.Kind, "resource", "resources config", 1)+" failed", noEntry(c, r, id))
	}
	what := "update " + strings.Replace(r.Kind, "resource", "resources config", 1) + " failed"
	if d := c.Param("digest"); d != "" && d != world.DigestOf(c.State.Entries(r)) {
		return answer.UserConfig(what, answer.Die("detected modified configuration - file changed by other user? Try again."))
	}
	if e == nil {
		return answer.UserConfig(what, answer.Die("%s ID '%s' does not exist", kindOfID(r), id))
	}
	if r.ACL != "" && !c.Params.Has("map") {
		return answer.UserConfig(what, answer.Die("missing value for required option 'map'"))
	}
	if err := validMap(c, r); err != nil {
		return answer.UserConfig(what, err)
	}
	for _, k := range schema.SplitList(c.Param("delete")) {
		if c.State.Schema.Methods["PUT "+r.Path+"/{"+r.ID+"}"].Parameters[k] == nil {
			return answer.UserConfig(what, answer.Die("no such option '%s'", k))
		}
		delete(e, k)
	}
	maps.Copy(e, entryParams(c, r))
	return nil
}

// deleteEntry forgets a section, which need not be there but for a resource.
func deleteEntry(c *world.Call, r world.Register) error {
	id := entryID(c, r)
	if r.ID == "sid" && c.State.Entries(r)[id] == nil {
		return answer.Die("cannot delete service '%s', not HA managed!", id)
	}
	delete(c.State.Entries(r), id)
	if r.ID == "sid" && (!c.Params.Has("purge") || c.Params.Bool("purge")) {
		c.State.LeaveHARules(id)
	}
	return nil
}
