package nodes

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

var upidPattern = regexp.MustCompile(`^UPID:[a-zA-Z0-9-]+:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s]+:[^:\s]*:[^:\s]+:$`)

func taskHandlers() map[string]world.Handler {
	const task = "/nodes/{node}/tasks/{upid}"
	return map[string]world.Handler{
		"GET /cluster/tasks":      clusterTasks,
		"GET /nodes/{node}/tasks": listTasks,
		"GET " + task + "/status": taskStatus,
		"GET " + task + "/log":    taskLog,
		"DELETE " + task:          stopTask,
	}
}

// taskOf returns the task of a path, if the asker may see it: its own, those of
// its tokens, or all with Sys.Audit. A token does not see its user's.
func taskOf(c *world.Call, priv string) (*world.Task, error) {
	upid := c.Param("upid")
	if !upidPattern.MatchString(upid) {
		return nil, answer.BadParam("upid", "unable to parse worker upid")
	}
	t := c.State.Tasks[upid]
	if t == nil || t.Node != c.Param("node") {
		return nil, answer.BadParam("upid", "no such task")
	}
	if !OwnsTask(c, t) {
		if err := access.Need(c.State, c.Who, "/nodes/"+t.Node, priv); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// OwnsTask reports whether a task is of who asks.
func OwnsTask(c *world.Call, t *world.Task) bool {
	if c.Who.Token() {
		return c.Who.ID == t.User+"!"+t.Token
	}
	return c.Who.ID == t.User
}

func identity(t *world.Task) map[string]any {
	m := map[string]any{"upid": t.UPID, "node": t.Node, "pid": t.PID, "pstart": t.Born, "starttime": t.Start.Unix(),
		"type": t.Kind, "id": t.ID, "user": t.User}
	if t.Token != "" {
		m["tokenid"] = t.Token
	}
	return m
}

func taskStatus(c *world.Call) (any, error) {
	t, err := taskOf(c, "Sys.Audit")
	if err != nil {
		return nil, err
	}
	m := identity(t)
	m["status"] = "running"
	if !t.Running() {
		m["status"], m["exitstatus"] = "stopped", t.Exit
	}
	return m, nil
}

func taskLog(c *world.Call) (any, error) {
	type line struct {
		N int    `json:"n"`
		T string `json:"t"`
	}
	t, err := taskOf(c, "Sys.Audit")
	switch upid := c.Param("upid"); {
	case c.State.Tasks[upid] == nil && upidPattern.MatchString(upid):
		if err := access.Need(c.State, c.Who, "/nodes/"+c.Param("node"), "Sys.Audit"); err != nil {
			return nil, err
		}
		return answer.Listing{Data: []line{{1, "unable to open file - No such file or directory"}}, Total: 1}, nil
	case err != nil:
		return nil, err
	case c.Params.Bool("download") && (c.Params.Has("start") || c.Params.Has("limit")):
		return nil, answer.Die("'download' cannot be used together with 'start' or 'limit' parameters")
	case c.Params.Bool("download"):
		return answer.PlainText(strings.Join(t.Lines, "\n") + "\n"), nil
	}
	lines := t.Lines
	if len(lines) == 0 {
		lines = []string{"no content"}
	}
	out := []line{}
	start, limit := c.Params.Int("start", 0), c.Params.Int("limit", 50)
	for i := start; i < len(lines) && (limit == 0 || i < start+limit); i++ {
		out = append(out, line{i + 1, lines[i]})
	}
	return answer.Listing{Data: out, Total: len(lines)}, nil
}

func stopTask(c *world.Call) (any, error) {
	t, err := taskOf(c, "Sys.Modify")
	if err != nil {
		return nil, err
	}
	if t.Running() && !t.Asked {
		t.Asked = true
		close(t.Stop)
	}
	return nil, nil
}

func listTasks(c *world.Call) (any, error) {
	source := c.Param("source")
	node := c.Param("node")
	audit := access.Can(c.State, c.Who, "/nodes/"+node, "Sys.Audit")
	var found []*world.Task
	for _, t := range slices.Backward(c.State.TaskOrder) {
		if t.Node == node && (audit || OwnsTask(c, t)) && inSource(c, t, source) && filtered(c, t) {
			found = append(found, t)
		}
	}
	out := []any{}
	start, limit := c.Params.Int("start", 0), c.Params.Int("limit", 50)
	for i := start; i < len(found) && i < start+limit; i++ {
		out = append(out, summary(found[i], source))
	}
	return answer.Listing{Data: out, Total: len(found)}, nil
}

func inSource(c *world.Call, t *world.Task, source string) bool {
	switch source {
	case "active":
		return t.Running()
	case "all":
		return true
	}
	return !t.Running()
}

func filtered(c *world.Call, t *world.Task) bool {
	since, until := c.Params.Int("since", 0), c.Params.Int("until", 0)
	status := "ok"
	switch {
	case t.Running():
		status = "unknown"
	case t.Failed():
		status = "error"
	case t.Exit != "OK":
		status = "warning"
	}
	return (!c.Params.Bool("errors") || t.Failed()) &&
		(since == 0 || t.Start.Unix() >= int64(since)) &&
		(until == 0 || t.Start.Unix() <= int64(until)) &&
		(!c.Params.Has("vmid") || t.ID == c.Param("vmid")) &&
		(!c.Params.Has("typefilter") || t.Kind == c.Param("typefilter")) &&
		(!c.Params.Has("userfilter") || strings.Contains(t.User, c.Param("userfilter"))) &&
		(!c.Params.Has("statusfilter") || slices.Contains(schema.SplitList(c.Param("statusfilter")), status))
}

func summary(t *world.Task, source string) map[string]any {
	m := identity(t)
	switch {
	case !t.Running():
		m["endtime"], m["status"] = t.End.Unix(), t.Exit
	case source == "active":
		m["status"], m["saved"] = "RUNNING", "0"
		if t.Token != "" {
			m["user"] = t.User + "!" + t.Token
			delete(m, "tokenid")
		}
	}
	return m
}

func clusterTasks(c *world.Call) (any, error) {
	out := []any{}
	for _, t := range slices.Backward(c.State.TaskOrder) {
		if len(out) == 25*len(c.State.Hosts) {
			break
		}
		if !OwnsTask(c, t) && !access.Can(c.State, c.Who, "/nodes/"+t.Node, "Sys.Audit") {
			continue
		}
		m := summary(t, "all")
		delete(m, "pstart")
		if !t.Running() {
			delete(m, "pid")
			m["saved"] = "1"
		}
		out = append(out, m)
	}
	return out, nil
}
