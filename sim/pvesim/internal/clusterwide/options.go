package clusterwide

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func optionHandlers() map[string]world.Handler {
	return map[string]world.Handler{
		"GET /cluster/ha/status/current":        highAvailability,
		"GET /cluster/ha/status/manager_status": manager,
		"POST /cluster/ha/status/arm-ha":        func(*world.Call) (any, error) { return nil, nil }, // it is armed
		"GET /cluster/options":                  clusterOptions,
		"PUT /cluster/options":                  setClusterOptions,
		"GET /cluster/log":                      clusterLog,
		"GET /cluster/nextid":                   nextID,
		"GET /cluster/resources":                resources,
	}
}

// highAvailability is the state of a manager that has not come to anything yet
// (PVE/API2/HA/Status.pm).
func highAvailability(c *world.Call) (any, error) {
	node := c.State.Nodes()[0]
	out := []any{map[string]any{"id": "quorum", "type": "quorum", "node": node, "status": "OK", "quorate": 1},
		map[string]any{"id": "fencing", "type": "fencing", "node": node, "status": "standby (CRM watchdog standby)", "armed-state": "standby"}}
	resources := world.Register{Path: "/cluster/ha/resources", ID: "sid"}
	for _, sid := range slices.Sorted(maps.Keys(c.State.Entries(resources))) {
		e := entry(c, resources, sid)
		_, number, _ := strings.Cut(sid, ":")
		v := c.State.VMs[schema.Atoi(number)]
		if v == nil {
			continue
		}
		one := map[string]any{"id": "service:" + sid, "type": "service", "sid": sid, "node": v.Node, "request_state": e["state"], "state": "queued",
			"failback": 1, "max_restart": 1, "max_relocate": 1}
		for _, k := range []string{"failback", "max_restart", "max_relocate", "group", "comment"} {
			if e[k] != nil {
				one[k] = e[k]
			}
		}
		if e["state"] == "ignored" {
			one["state"] = "ignored"
		}
		one["status"] = fmt.Sprintf("%s (%s, %s)", sid, v.Node, one["state"])
		out = append(out, one)
	}
	return out, nil
}

func manager(c *world.Call) (any, error) {
	return map[string]any{"manager_status": map[string]any{"node_status": map[string]any{}}, "quorum": map[string]any{"node": c.State.Nodes()[0], "quorate": "1"}}, nil
}

// clusterOptions is datacenter.cfg, with property strings taken apart and lists as
// lists. Who may not audit sees what is for everybody (PVE/API2/Cluster.pm, get_options).
func clusterOptions(c *world.Call) (any, error) {
	out := map[string]any{}
	all := access.Can(c.State, c.Who, "/", "Sys.Audit")
	if all {
		out["mac_prefix"], out["description"] = "BC:24:11", ""
	}
	for k, v := range c.State.Datacenter {
		if all || k == "console" || k == "tag-style" {
			out[k] = config.ClusterOption(c.State, k, v)
		}
	}
	out["allowed-tags"], _ = config.AllowedTags(c.State, c.Who)
	return out, nil
}

// setClusterOptions sets, and then deletes (PVE/API2/Cluster.pm, set_options).
func setClusterOptions(c *world.Call) (any, error) {
	set := maps.Clone(c.State.Datacenter)
	if set == nil {
		set = map[string]string{}
	}
	maps.Copy(set, c.Section())
	for _, k := range schema.SplitList(c.Param("delete")) {
		delete(set, k)
	}
	if lower, upper := world.IDRangeOf(set["next-id"]); lower > upper {
		return nil, answer.Die("lower (%d) <= upper (%d) boundary rule broken", lower, upper)
	}
	c.State.Datacenter = set
	return nil, nil
}

// clusterLog is what the nodes have logged of tasks: their begin and end.
func clusterLog(c *world.Call) (any, error) {
	out := []any{}
	limit := c.Params.Int("max", 50)
	for _, t := range slices.Backward(c.State.TaskOrder) {
		if len(out) >= limit {
			break
		}
		if !nodes.OwnsTask(c, t) && !access.Can(c.State, c.Who, "/", "Sys.Syslog") {
			continue
		}
		text, pri := "starting task "+t.UPID, 6
		if !t.Running() {
			text = "end task " + t.UPID + " " + t.Exit
		}
		if t.Failed() {
			pri = 3
		}
		out = append(out, map[string]any{"uid": len(out) + 1, "time": t.Start.Unix(), "pri": pri, "tag": "pvedaemon", "pid": t.PID, "node": t.Node, "user": t.User, "msg": text, "id": strconv.Itoa(t.PID)})
	}
	return out, nil
}
