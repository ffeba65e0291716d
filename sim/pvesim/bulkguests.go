package pvesim

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// What is done to guests of the whole cluster, one after the other: PVE/API2/Cluster/BulkAction/Guest.pm.

// bulkAct is one kind of it.
type bulkAct struct {
	doing, failed string // in the task's log
	priv          string
	backward      bool // later guests of the startup order first
	// do is what a guest is asked for, or why it is passed over.
	do func(c *call, v *vm) (path string, p params, skip string)
}

func bulkGuestHandlers() map[string]handler {
	out := map[string]handler{}
	for name, act := range map[string]bulkAct{
		"start":    {doing: "Starting", failed: "Some guests failed to start: ", priv: "VM.PowerMgmt", do: (*call).bulkStart},
		"shutdown": {doing: "Shutting down", failed: "Some guests failed to shutdown ", priv: "VM.PowerMgmt", backward: true, do: (*call).bulkShutdown},
		"suspend":  {doing: "Suspending", failed: "Some guests failed to suspend ", priv: "VM.PowerMgmt", backward: true, do: (*call).bulkSuspend},
		"migrate":  {doing: "Migrating", failed: "Some guests failed to migrate ", priv: "VM.Migrate", do: (*call).bulkMigrate},
	} {
		out["POST /cluster/bulk-action/guest/"+name] = func(c *call) (any, error) { return c.bulk(name, act) }
	}
	return out
}

func (c *call) bulkStart(v *vm) (string, params, string) {
	if v.running && v.qmpStatus() != "paused" {
		return "", nil, "Skipping VM " + strconv.Itoa(v.id) + ", already running."
	}
	if v.running {
		return "/status/resume", params{}, ""
	}
	p := params{}
	if c.p.has("timeout") {
		p["timeout"] = c.p["timeout"]
	}
	return "/status/start", p, ""
}

func (c *call) bulkShutdown(v *vm) (string, params, string) {
	force := cmp.Or(c.param("force-stop"), "1")
	switch {
	case !v.running:
		return "", nil, "Skipping VM " + strconv.Itoa(v.id) + ", not running."
	case v.qmpStatus() == "paused" && c.p.has("force-stop") && !c.p.bool("force-stop"):
		return "", nil, "Skipping VM " + strconv.Itoa(v.id) + ", resume paused VM before shutdown."
	}
	return "/status/shutdown", params{"timeout": {cmp.Or(v.startup("down"), c.param("timeout"), "180")}, "forceStop": {force}}, ""
}

func (c *call) bulkSuspend(v *vm) (string, params, string) {
	if !v.running {
		return "", nil, "Skipping VM " + strconv.Itoa(v.id) + ", not running."
	}
	p := params{"todisk": {strconv.Itoa(boolInt(c.p.bool("to-disk")))}}
	if c.p.bool("to-disk") && c.p.has("statestorage") {
		p["statestorage"] = c.p["statestorage"]
	}
	return "/status/suspend", p, ""
}

func (c *call) bulkMigrate(v *vm) (string, params, string) {
	if v.node == c.param("target") {
		return "", nil, "VM " + strconv.Itoa(v.id) + " already on " + v.node + ", skipping."
	}
	p := params{"target": c.p["target"]}
	for _, k := range []string{"online", "with-local-disks"} {
		if c.p.has(k) {
			p[k] = c.p[k]
		}
	}
	return "/migrate", p, ""
}

// bulk starts the task that does something to many guests.
func (c *call) bulk(name string, act bulkAct) (any, error) {
	ids := c.p["vms"]
	privs := []string{act.priv}
	if c.p.bool("to-disk") {
		privs = append(privs, "VM.Config.Disk")
	}
	for _, priv := range privs {
		for _, id := range ids {
			if err := c.s.need(c.who, "/vms/"+id, priv); err != nil {
				return nil, err
			}
		}
		if len(ids) == 0 && c.s.need(c.who, "/", priv) != nil {
			return nil, refuse("/", priv)
		}
	}
	if storage := c.param("statestorage"); storage != "" && c.p.bool("to-disk") {
		if err := c.s.need(c.who, "/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
	}
	return c.startTask("bulk-"+name, "", func(w worker) error {
		to := ""
		if name == "migrate" {
			to = " to " + c.param("target")
		}
		if len(ids) > 0 {
			w.log("%s guests%s: %s", act.doing, to, strings.Join(ids, ", "))
		} else {
			w.log("%s all guests%s", act.doing, to)
		}
		return c.bulkWork(w, act)
	})
}

// bulkWork goes from guest to guest, and ends with how many there were warnings about.
func (c *call) bulkWork(w worker, act bulkAct) error {
	warned := 0
	warn := func(format string, args ...any) {
		warned++
		w.log("WARN: "+format, args...)
	}
	var failed []string
	for _, v := range c.guests(act) {
		path, p, skip := act.do(c, v)
		if skip != "" {
			warn("%s", skip)
			continue
		}
		what := ""
		if timeout := p["timeout"]; strings.HasSuffix(path, "shutdown") {
			what = " (Timeout = " + timeout[0] + " seconds)"
		}
		w.log("%s VM %d%s", act.doing, v.id, what)
		t, err := c.one(w, http.MethodPost, v.node, strconv.Itoa(v.id)+path, p)
		switch {
		case err != nil:
			warn("%v", err)
			failed = append(failed, strconv.Itoa(v.id))
		case t.failed():
			warn("%s VM %d failed: %s", strings.Replace(act.doing, "Shutting down", "Stopping", 1), v.id, t.exit)
			failed = append(failed, strconv.Itoa(v.id))
		}
	}
	switch {
	case len(failed) > 0:
		return die("%s%s", act.failed, strings.Join(failed, ", "))
	case warned > 0:
		return warnings(warned)
	}
	return nil
}

// guests are those that a bulk action is about, in its order: of the same place in the startup order by number.
func (c *call) guests(act bulkAct) (out []*vm) {
	wanted := c.p["vms"]
	for _, v := range c.s.sorted() {
		_, managed := c.s.entries(register{path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.id)]
		template := v.conf["template"] == "1" && act.priv != "VM.Migrate"
		if slices.Contains(wanted, strconv.Itoa(v.id)) && !template || wanted == nil && !template && !managed {
			out = append(out, v)
		}
	}
	place := func(v *vm) int {
		n := startOrder(v)
		if act.backward {
			return math.MaxInt32 - n
		}
		return n
	}
	if act.priv != "VM.Migrate" {
		slices.SortStableFunc(out, func(a, b *vm) int { return place(a) - place(b) })
	}
	return out
}
