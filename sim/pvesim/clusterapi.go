package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func moreClusterHandlers() map[string]handler {
	return map[string]handler{
		"GET /cluster/ha/status/current":        (*call).highAvailability,
		"GET /cluster/ha/status/manager_status": (*call).manager,
		"POST /cluster/ha/status/arm-ha":        func(*call) (any, error) { return nil, nil }, // it is armed
		"GET /cluster/options":                  (*call).clusterOptions,
		"PUT /cluster/options":                  (*call).setClusterOptions,
		"GET /cluster/log":                      (*call).clusterLog,
		"GET /cluster/nextid":                   (*call).nextID,
		"GET /cluster/resources":                (*call).resources,
	}
}

// highAvailability is the state of a manager that has not come to anything yet
// (PVE/API2/HA/Status.pm).
func (c *call) highAvailability() (any, error) {
	node := c.s.nodes()[0]
	out := []any{map[string]any{"id": "quorum", "type": "quorum", "node": node, "status": "OK", "quorate": 1},
		map[string]any{"id": "fencing", "type": "fencing", "node": node, "status": "standby (CRM watchdog standby)", "armed-state": "standby"}}
	resources := register{path: "/cluster/ha/resources", id: "sid"}
	for _, sid := range slices.Sorted(maps.Keys(c.s.entries(resources))) {
		e := c.entry(resources, sid)
		_, number, _ := strings.Cut(sid, ":")
		v := c.s.vms[atoi(number)]
		if v == nil {
			continue
		}
		one := map[string]any{"id": "service:" + sid, "type": "service", "sid": sid, "node": v.node, "request_state": e["state"], "state": "queued",
			"failback": 1, "max_restart": 1, "max_relocate": 1}
		for _, k := range []string{"failback", "max_restart", "max_relocate", "group", "comment"} {
			if e[k] != nil {
				one[k] = e[k]
			}
		}
		if e["state"] == "ignored" {
			one["state"] = "ignored"
		}
		one["status"] = fmt.Sprintf("%s (%s, %s)", sid, v.node, one["state"])
		out = append(out, one)
	}
	return out, nil
}

func (c *call) manager() (any, error) {
	return map[string]any{"manager_status": map[string]any{"node_status": map[string]any{}}, "quorum": map[string]any{"node": c.s.nodes()[0], "quorate": "1"}}, nil
}

// clusterOptions is datacenter.cfg, with property strings taken apart and lists as
// lists. Who may not audit sees what is for everybody (PVE/API2/Cluster.pm, get_options).
func (c *call) clusterOptions() (any, error) {
	out := map[string]any{}
	all := c.s.can(c.who, "/", "Sys.Audit")
	if all {
		out["mac_prefix"], out["description"] = "BC:24:11", ""
	}
	for k, v := range c.s.options {
		if all || k == "console" || k == "tag-style" {
			out[k] = c.s.clusterOption(k, v)
		}
	}
	out["allowed-tags"], _ = c.s.allowedTags(c.who)
	return out, nil
}

// setClusterOptions sets, and then deletes (PVE/API2/Cluster.pm, set_options).
func (c *call) setClusterOptions() (any, error) {
	set := maps.Clone(c.s.options)
	if set == nil {
		set = map[string]string{}
	}
	maps.Copy(set, c.section())
	for _, k := range splitList(c.param("delete")) {
		delete(set, k)
	}
	if lower, upper := idRangeOf(set["next-id"]); lower > upper {
		return nil, die("lower (%d) <= upper (%d) boundary rule broken", lower, upper)
	}
	c.s.options = set
	return nil, nil
}

// clusterLog is what the nodes have logged of tasks: their begin and end.
func (c *call) clusterLog() (any, error) {
	out := []any{}
	limit := c.p.int("max", 50)
	for _, t := range slices.Backward(c.s.order) {
		if len(out) >= limit {
			break
		}
		if !c.owns(t) && !c.s.can(c.who, "/", "Sys.Syslog") {
			continue
		}
		text, pri := "starting task "+t.upid, 6
		if !t.running() {
			text = "end task " + t.upid + " " + t.exit
		}
		if t.failed() {
			pri = 3
		}
		out = append(out, map[string]any{"uid": len(out) + 1, "time": t.start.Unix(), "pri": pri, "tag": "pvedaemon", "pid": t.pid, "node": t.node, "user": t.user, "msg": text, "id": strconv.Itoa(t.pid)})
	}
	return out, nil
}
