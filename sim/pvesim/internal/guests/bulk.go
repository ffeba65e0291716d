package guests

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func bulkHandlers() map[string]world.Handler {
	const node = "/nodes/{node}"
	return map[string]world.Handler{
		"POST " + node + "/startall":   startAll,
		"POST " + node + "/stopall":    stopAll,
		"POST " + node + "/migrateall": migrateAll,
	}
}

// mayAll wants privileges on everything, or the first of them on every machine that
// a call names.
func mayAll(c *world.Call, privs ...string) error {
	if access.NeedAll(c.State, c.Who, "/", privs) == nil {
		return nil
	}
	vms := schema.SplitList(c.Param("vms"))
	if len(vms) == 0 {
		return access.Refuse("/", strings.Join(privs, " && "))
	}
	for _, id := range vms {
		if err := access.Need(c.State, c.Who, "/vms/"+id, privs[0]); err != nil {
			return err
		}
	}
	return nil
}

// machinesOf returns the machines of a node that a call is about, in the order of their
// startup option and number, or the other way round (PVE/API2/Nodes.pm,
// get_start_stop_list). Templates are not among them.
func machinesOf(c *world.Call, backward bool) []*world.VM {
	wanted := schema.SplitList(c.Param("vms"))
	var out []*world.VM
	for _, v := range c.State.VMsByID() {
		_, managed := c.State.Entries(world.Register{Path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.ID)]
		switch {
		case v.Node != c.Param("node"), v.Conf["template"] == "1", wanted == nil && managed:
		case wanted == nil || slices.Contains(wanted, strconv.Itoa(v.ID)):
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b *world.VM) int { return startOrder(a) - startOrder(b) })
	if backward {
		slices.Reverse(out)
	}
	return out
}

// startup is one part of a machine's startup option; order is the first, named or not.
func startup(v *world.VM, key string) string {
	for part := range strings.SplitSeq(v.Conf["startup"], ",") {
		k, value, named := strings.Cut(part, "=")
		if !named {
			k, value = "order", part
		}
		if k == key {
			return value
		}
	}
	return ""
}

func startOrder(v *world.VM) int {
	if order := startup(v, "order"); order != "" {
		return schema.Atoi(order)
	}
	return math.MaxInt32
}

// one does to a machine what somebody asks for whom a bulk task works, and waits for it.
func one(c *world.Call, w world.Worker, verb, node, path string, p request.Params) (*world.Task, error) {
	again := &world.Call{State: c.State, Method: verb, Path: "/nodes/" + node + "/qemu/" + path, Params: p, Who: c.Who}
	upid, err := c.State.Dispatch(again)
	if err != nil {
		return nil, err
	}
	id, _ := upid.(string)
	t := c.State.Tasks[id]
	for t != nil && t.Running() {
		if err := w.Sleep(time.Second); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func startAll(c *world.Call) (any, error) {
	if err := mayAll(c, "VM.PowerMgmt"); err != nil {
		return nil, err
	}
	return c.StartTask("startall", "", func(w world.Worker) error {
		for _, v := range machinesOf(c, false) {
			if v.Running || !c.Params.Bool("force") && v.Conf["onboot"] != "1" {
				continue
			}
			w.Log("Starting VM %d", v.ID)
			t, err := one(c, w, http.MethodPost, v.Node, strconv.Itoa(v.ID)+"/status/start", request.Params{})
			switch {
			case err != nil:
				w.Log("%v", err)
			case t.Failed():
				w.Log("Starting VM %d failed: %s", v.ID, t.Exit)
			}
			delay := 3 // so that they do not all boot at once
			if up := startup(v, "up"); up != "" {
				delay = schema.Atoi(up)
				w.Log("Waiting for %d seconds (startup delay)", delay)
			}
			if err := w.Sleep(time.Duration(delay) * time.Second); err != nil {
				return err
			}
		}
		return nil
	})
}

func stopAll(c *world.Call) (any, error) {
	if err := mayAll(c, "VM.PowerMgmt"); err != nil {
		return nil, err
	}
	return c.StartTask("stopall", "", func(w world.Worker) error {
		for _, v := range machinesOf(c, true) {
			if !v.Running {
				continue
			}
			timeout := c.Params.Int("timeout", 180)
			if down := startup(v, "down"); down != "" {
				timeout = schema.Atoi(down)
			}
			force := "1"
			if c.Params.Has("force-stop") {
				force = c.Param("force-stop")
			}
			w.Log("Stopping VM %d (timeout = %d seconds)", v.ID, timeout)
			if _, err := one(c, w, http.MethodPost, v.Node, strconv.Itoa(v.ID)+"/status/shutdown", request.Params{"timeout": {strconv.Itoa(timeout)}, "forceStop": {force}}); err != nil {
				w.Log("%v", err)
			}
		}
		return nil
	})
}

func migrateAll(c *world.Call) (any, error) {
	if err := mayAll(c, "VM.Migrate"); err != nil {
		return nil, err
	}
	target := c.Param("target")
	workers := c.Param("max-workers") + c.Param("maxworkers") + c.State.Datacenter["max_workers"]
	switch {
	case target == c.Param("node"):
		return nil, answer.BadParam("target", "target is local node.")
	case c.State.Hosts[target] == nil:
		return nil, answer.Die("no such cluster node '%s'", target)
	case workers == "":
		return nil, answer.Die("either 'max-workers' parameter or max_workers in datacenter.cfg must be set!")
	}
	return c.StartTask("migrateall", "", func(w world.Worker) error {
		all := machinesOf(c, false)
		if len(all) == 0 {
			w.Log("no virtual guests matched, nothing to do..")
			return nil
		}
		started := 0
		for _, v := range all {
			p := request.Params{"target": {target}}
			if v.Running {
				p["online"] = []string{"1"}
			}
			if c.Params.Has("with-local-disks") && v.Running {
				p["with-local-disks"] = []string{c.Param("with-local-disks")}
			}
			w.Log("Migrating VM %d", v.ID)
			if _, err := one(c, w, http.MethodPost, v.Node, strconv.Itoa(v.ID)+"/migrate", p); err != nil {
				w.Log("%v", err)
				continue
			}
			started++
		}
		if started == 0 {
			return answer.Die("no migrations worker started...")
		}
		w.Log("All jobs finished, used %d workers in total.", started)
		return nil
	})
}
