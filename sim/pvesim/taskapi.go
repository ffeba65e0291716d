package pvesim

import (
	"regexp"
	"slices"
	"strings"
)

var upidPattern = regexp.MustCompile(`^UPID:[a-zA-Z0-9-]+:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s]+:[^:\s]*:[^:\s]+:$`)

func taskHandlers() map[string]handler {
	const task = "/nodes/{node}/tasks/{upid}"
	return map[string]handler{
		"GET /cluster/tasks":      (*call).clusterTasks,
		"GET /nodes/{node}/tasks": (*call).listTasks,
		"GET " + task + "/status": (*call).taskStatus,
		"GET " + task + "/log":    (*call).taskLog,
		"DELETE " + task:          (*call).stopTask,
	}
}

// taskOf returns the task of a path, if the asker may see it: its own, those of
// its tokens, or all with Sys.Audit. A token does not see its user's.
func (c *call) taskOf(priv string) (*task, error) {
	upid := c.param("upid")
	if !upidPattern.MatchString(upid) {
		return nil, badParam("upid", "unable to parse worker upid")
	}
	t := c.s.tasks[upid]
	if t == nil || t.node != c.param("node") {
		return nil, badParam("upid", "no such task")
	}
	if !c.owns(t) {
		if err := c.s.need(c.who, "/nodes/"+t.node, priv); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (c *call) owns(t *task) bool {
	if c.who.token() {
		return c.who.id == t.user+"!"+t.token
	}
	return c.who.id == t.user
}

func (t *task) identity() map[string]any {
	m := map[string]any{"upid": t.upid, "node": t.node, "pid": t.pid, "pstart": t.pstart, "starttime": t.start.Unix(),
		"type": t.kind, "id": t.id, "user": t.user}
	if t.token != "" {
		m["tokenid"] = t.token
	}
	return m
}

func (c *call) taskStatus() (any, error) {
	t, err := c.taskOf("Sys.Audit")
	if err != nil {
		return nil, err
	}
	m := t.identity()
	m["status"] = "running"
	if !t.running() {
		m["status"], m["exitstatus"] = "stopped", t.exit
	}
	return m, nil
}

func (c *call) taskLog() (any, error) {
	type line struct {
		N int    `json:"n"`
		T string `json:"t"`
	}
	t, err := c.taskOf("Sys.Audit")
	switch upid := c.param("upid"); {
	case c.s.tasks[upid] == nil && upidPattern.MatchString(upid):
		if err := c.s.need(c.who, "/nodes/"+c.param("node"), "Sys.Audit"); err != nil {
			return nil, err
		}
		return listing{[]line{{1, "unable to open file - No such file or directory"}}, 1}, nil
	case err != nil:
		return nil, err
	case c.p.bool("download") && (c.p.has("start") || c.p.has("limit")):
		return nil, die("'download' cannot be used together with 'start' or 'limit' parameters")
	case c.p.bool("download"):
		return plainText(strings.Join(t.lines, "\n") + "\n"), nil
	}
	lines := t.lines
	if len(lines) == 0 {
		lines = []string{"no content"}
	}
	out := []line{}
	start, limit := c.p.int("start", 0), c.p.int("limit", 50)
	for i := start; i < len(lines) && (limit == 0 || i < start+limit); i++ {
		out = append(out, line{i + 1, lines[i]})
	}
	return listing{out, len(lines)}, nil
}

func (c *call) stopTask() (any, error) {
	t, err := c.taskOf("Sys.Modify")
	if err != nil {
		return nil, err
	}
	if t.running() && !t.asked {
		t.asked = true
		close(t.stop)
	}
	return nil, nil
}

func (c *call) listTasks() (any, error) {
	source := c.param("source")
	node := c.param("node")
	audit := c.s.can(c.who, "/nodes/"+node, "Sys.Audit")
	var found []*task
	for _, t := range slices.Backward(c.s.order) {
		if t.node == node && (audit || c.owns(t)) && c.inSource(t, source) && c.filtered(t) {
			found = append(found, t)
		}
	}
	out := []any{}
	start, limit := c.p.int("start", 0), c.p.int("limit", 50)
	for i := start; i < len(found) && i < start+limit; i++ {
		out = append(out, found[i].summary(source))
	}
	return listing{out, len(found)}, nil
}

func (c *call) inSource(t *task, source string) bool {
	switch source {
	case "active":
		return t.running()
	case "all":
		return true
	}
	return !t.running()
}

func (c *call) filtered(t *task) bool {
	since, until := c.p.int("since", 0), c.p.int("until", 0)
	status := "ok"
	switch {
	case t.running():
		status = "unknown"
	case t.failed():
		status = "error"
	case t.exit != "OK":
		status = "warning"
	}
	return (!c.p.bool("errors") || t.failed()) &&
		(since == 0 || t.start.Unix() >= int64(since)) &&
		(until == 0 || t.start.Unix() <= int64(until)) &&
		(!c.p.has("vmid") || t.id == c.param("vmid")) &&
		(!c.p.has("typefilter") || t.kind == c.param("typefilter")) &&
		(!c.p.has("userfilter") || strings.Contains(t.user, c.param("userfilter"))) &&
		(!c.p.has("statusfilter") || slices.Contains(splitList(c.param("statusfilter")), status))
}

func (t *task) summary(source string) map[string]any {
	m := t.identity()
	switch {
	case !t.running():
		m["endtime"], m["status"] = t.end.Unix(), t.exit
	case source == "active":
		m["status"], m["saved"] = "RUNNING", "0"
		if t.token != "" {
			m["user"] = t.user + "!" + t.token
			delete(m, "tokenid")
		}
	}
	return m
}

func (c *call) clusterTasks() (any, error) {
	out := []any{}
	for _, t := range slices.Backward(c.s.order) {
		if len(out) == 25*len(c.s.hosts) {
			break
		}
		if !c.owns(t) && !c.s.can(c.who, "/nodes/"+t.node, "Sys.Audit") {
			continue
		}
		m := t.summary("all")
		delete(m, "pstart")
		if !t.running() {
			delete(m, "pid")
			m["saved"] = "1"
		}
		out = append(out, m)
	}
	return out, nil
}
