package guests

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// What is done to guests of the whole cluster, one after the other: PVE/API2/Cluster/BulkAction/Guest.pm.

// bulkAct is one kind of it.
type bulkAct struct {
	doing, failed string // in the task's log
	priv          string
	backward      bool // later guests of the startup order first
	// do is what a guest is asked for, or why it is passed over.
	do func(c *world.Call, v *world.VM) (path string, p request.Params, skip string)
}

func bulkGuestHandlers() map[string]world.Handler {
	out := map[string]world.Handler{}
	for name, act := range map[string]bulkAct{
		"start":    {doing: "Starting", failed: "Some guests failed to start: ", priv: "VM.PowerMgmt", do: bulkStart},
		"shutdown": {doing: "Shutting down", failed: "Some guests failed to shutdown ", priv: "VM.PowerMgmt", backward: true, do: bulkShutdown},
		"suspend":  {doing: "Suspending", failed: "Some guests failed to suspend ", priv: "VM.PowerMgmt", backward: true, do: bulkSuspend},
		"migrate":  {doing: "Migrating", failed: "Some guests failed to migrate ", priv: "VM.Migrate", do: bulkMigrate},
	} {
		out["POST /cluster/bulk-action/guest/"+name] = func(c *world.Call) (any, error) { return bulk(c, name, act) }
	}
	return out
}

func bulkStart(c *world.Call, v *world.VM) (string, request.Params, string) {
	if v.Running && config.QMPStatus(v) != "paused" {
		return "", nil, "Skipping VM " + strconv.Itoa(v.ID) + ", already running."
	}
	if v.Running {
		return "/status/resume", request.Params{}, ""
	}
	p := request.Params{}
	if c.Params.Has("timeout") {
		p["timeout"] = c.Params["timeout"]
	}
	return "/status/start", p, ""
}

func bulkShutdown(c *world.Call, v *world.VM) (string, request.Params, string) {
	force := cmp.Or(c.Param("force-stop"), "1")
	switch {
	case !v.Running:
		return "", nil, "Skipping VM " + strconv.Itoa(v.ID) + ", not running."
	case config.QMPStatus(v) == "paused" && c.Params.Has("force-stop") && !c.Params.Bool("force-stop"):
		return "", nil, "Skipping VM " + strconv.Itoa(v.ID) + ", resume paused VM before shutdown."
	}
	return "/status/shutdown", request.Params{"timeout": {cmp.Or(startup(v, "down"), c.Param("timeout"), "180")}, "forceStop": {force}}, ""
}

func bulkSuspend(c *world.Call, v *world.VM) (string, request.Params, string) {
	if !v.Running {
		return "", nil, "Skipping VM " + strconv.Itoa(v.ID) + ", not running."
	}
	p := request.Params{"todisk": {strconv.Itoa(answer.Flag(c.Params.Bool("to-disk")))}}
	if c.Params.Bool("to-disk") && c.Params.Has("statestorage") {
		p["statestorage"] = c.Params["statestorage"]
	}
	return "/status/suspend", p, ""
}

func bulkMigrate(c *world.Call, v *world.VM) (string, request.Params, string) {
	if v.Node == c.Param("target") {
		return "", nil, "VM " + strconv.Itoa(v.ID) + " already on " + v.Node + ", skipping."
	}
	p := request.Params{"target": c.Params["target"]}
	for _, k := range []string{"online", "with-local-disks"} {
		if c.Params.Has(k) {
			p[k] = c.Params[k]
		}
	}
	return "/migrate", p, ""
}

// bulk starts the task that does something to many guests.
func bulk(c *world.Call, name string, act bulkAct) (any, error) {
	ids := c.Params["vms"]
	privs := []string{act.priv}
	if c.Params.Bool("to-disk") {
		privs = append(privs, "VM.Config.Disk")
	}
	for _, priv := range privs {
		for _, id := range ids {
			if err := access.Need(c.State, c.Who, "/vms/"+id, priv); err != nil {
				return nil, err
			}
		}
		if len(ids) == 0 && access.Need(c.State, c.Who, "/", priv) != nil {
			return nil, access.Refuse("/", priv)
		}
	}
	if storage := c.Param("statestorage"); storage != "" && c.Params.Bool("to-disk") {
		if err := access.Need(c.State, c.Who, "/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
	}
	return c.StartTask("bulk-"+name, "", func(w world.Worker) error {
		to := ""
		if name == "migrate" {
			to = " to " + c.Param("target")
		}
		if len(ids) > 0 {
			w.Log("%s guests%s: %s", act.doing, to, strings.Join(ids, ", "))
		} else {
			w.Log("%s all guests%s", act.doing, to)
		}
		return bulkWork(c, w, act)
	})
}

// bulkWork goes from guest to guest, and ends with how many there were warnings about.
func bulkWork(c *world.Call, w world.Worker, act bulkAct) error {
	warned := 0
	warn := func(format string, args ...any) {
		warned++
		w.Log("WARN: "+format, args...)
	}
	var failed []string
	for _, v := range guests(c, act) {
		path, p, skip := act.do(c, v)
		if skip != "" {
			warn("%s", skip)
			continue
		}
		what := ""
		if timeout := p["timeout"]; strings.HasSuffix(path, "shutdown") {
			what = " (Timeout = " + timeout[0] + " seconds)"
		}
		w.Log("%s VM %d%s", act.doing, v.ID, what)
		t, err := one(c, w, http.MethodPost, v.Node, strconv.Itoa(v.ID)+path, p)
		switch {
		case err != nil:
			warn("%v", err)
			failed = append(failed, strconv.Itoa(v.ID))
		case t.Failed():
			warn("%s VM %d failed: %s", strings.Replace(act.doing, "Shutting down", "Stopping", 1), v.ID, t.Exit)
			failed = append(failed, strconv.Itoa(v.ID))
		}
	}
	switch {
	case len(failed) > 0:
		return answer.Die("%s%s", act.failed, strings.Join(failed, ", "))
	case warned > 0:
		return world.Warnings(warned)
	}
	return nil
}

// guests are those that a bulk action is about, in its order: of the same place in the startup order by number.
func guests(c *world.Call, act bulkAct) (out []*world.VM) {
	wanted := c.Params["vms"]
	for _, v := range c.State.Sorted() {
		_, managed := c.State.Entries(world.Register{Path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.ID)]
		template := v.Conf["template"] == "1" && act.priv != "VM.Migrate"
		if slices.Contains(wanted, strconv.Itoa(v.ID)) && !template || wanted == nil && !template && !managed {
			out = append(out, v)
		}
	}
	place := func(v *world.VM) int {
		n := startOrder(v)
		if act.backward {
			return math.MaxInt32 - n
		}
		return n
	}
	if act.priv != "VM.Migrate" {
		slices.SortStableFunc(out, func(a, b *world.VM) int { return place(a) - place(b) })
	}
	return out
}
