package pvesim

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func bulkHandlers() map[string]handler {
	const node = "/nodes/{node}"
	return map[string]handler{
		"POST " + node + "/startall":   (*call).startAll,
		"POST " + node + "/stopall":    (*call).stopAll,
		"POST " + node + "/suspendall": (*call).suspendAll,
		"POST " + node + "/migrateall": (*call).migrateAll,
	}
}

// mayAll wants privileges on everything, or the first of them on every machine that
// a call names.
func (c *call) mayAll(privs ...string) error {
	if c.s.needAll(c.who, "/", privs) == nil {
		return nil
	}
	vms := splitList(c.param("vms"))
	if len(vms) == 0 {
		return refuse("/", strings.Join(privs, " && "))
	}
	for _, id := range vms {
		if err := c.s.need(c.who, "/vms/"+id, privs[0]); err != nil {
			return err
		}
	}
	return nil
}

// ordered are the machines of a node that a call is about, in the order of their
// startup option and number, or the other way round (PVE/API2/Nodes.pm,
// get_start_stop_list). Templates are not among them.
func (c *call) ordered(backward bool) []*vm {
	wanted := splitList(c.param("vms"))
	var out []*vm
	for _, v := range c.s.sorted() {
		_, managed := c.s.entries(register{path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.id)]
		switch {
		case v.node != c.param("node"), v.conf["template"] == "1", wanted == nil && managed:
		case wanted == nil || slices.Contains(wanted, strconv.Itoa(v.id)):
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b *vm) int { return startOrder(a) - startOrder(b) })
	if backward {
		slices.Reverse(out)
	}
	return out
}

// startup is one part of a machine's startup option; order is the first, named or not.
func (v *vm) startup(key string) string {
	for part := range strings.SplitSeq(v.conf["startup"], ",") {
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

func startOrder(v *vm) int {
	if order := v.startup("order"); order != "" {
		return atoi(order)
	}
	return math.MaxInt32
}

// one does to a machine what somebody asks for whom a bulk task works, and waits for it.
func (c *call) one(w worker, verb, node, path string, p params) (*task, error) {
	again := &call{s: c.s, method: verb, path: "/nodes/" + node + "/qemu/" + path, p: p, who: c.who}
	upid, err := c.s.dispatch(again)
	if err != nil {
		return nil, err
	}
	id, _ := upid.(string)
	t := c.s.tasks[id]
	for t != nil && t.running() {
		if err := w.sleep(time.Second); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (c *call) startAll() (any, error) {
	if err := c.mayAll("VM.PowerMgmt"); err != nil {
		return nil, err
	}
	return c.startTask("startall", "", func(w worker) error {
		for _, v := range c.ordered(false) {
			if v.running || !c.p.bool("force") && v.conf["onboot"] != "1" {
				continue
			}
			w.log("Starting VM %d", v.id)
			t, err := c.one(w, http.MethodPost, v.node, strconv.Itoa(v.id)+"/status/start", params{})
			switch {
			case err != nil:
				w.log("%v", err)
			case t.failed():
				w.log("Starting VM %d failed: %s", v.id, t.exit)
			}
			delay := 3 // so that they do not all boot at once
			if up := v.startup("up"); up != "" {
				delay = atoi(up)
				w.log("Waiting for %d seconds (startup delay)", delay)
			}
			if err := w.sleep(time.Duration(delay) * time.Second); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *call) stopAll() (any, error) {
	if err := c.mayAll("VM.PowerMgmt"); err != nil {
		return nil, err
	}
	return c.startTask("stopall", "", func(w worker) error {
		for _, v := range c.ordered(true) {
			if !v.running {
				continue
			}
			timeout := c.p.int("timeout", 180)
			if down := v.startup("down"); down != "" {
				timeout = atoi(down)
			}
			force := "1"
			if c.p.has("force-stop") {
				force = c.param("force-stop")
			}
			w.log("Stopping VM %d (timeout = %d seconds)", v.id, timeout)
			if _, err := c.one(w, http.MethodPost, v.node, strconv.Itoa(v.id)+"/status/shutdown", params{"timeout": {strconv.Itoa(timeout)}, "forceStop": {force}}); err != nil {
				w.log("%v", err)
			}
		}
		return nil
	})
}

func (c *call) suspendAll() (any, error) {
	if err := c.mayAll("VM.PowerMgmt", "VM.Config.Disk"); err != nil {
		return nil, err
	}
	return c.startTask("suspendall", "", func(w worker) error {
		for _, v := range c.ordered(true) {
			if !v.running {
				w.log("VM %d not running, skipping suspension", v.id)
				continue
			}
			w.log("Suspending VM %d", v.id)
			if _, err := c.one(w, http.MethodPost, v.node, strconv.Itoa(v.id)+"/status/suspend", params{"todisk": {"1"}}); err != nil {
				w.log("%v", err)
			}
		}
		return nil
	})
}

func (c *call) migrateAll() (any, error) {
	if err := c.mayAll("VM.Migrate"); err != nil {
		return nil, err
	}
	target := c.param("target")
	workers := c.param("max-workers") + c.param("maxworkers") + c.s.options["max_workers"]
	switch {
	case target == c.param("node"):
		return nil, badParam("target", "target is local node.")
	case c.s.hosts[target] == nil:
		return nil, die("no such cluster node '%s'", target)
	case workers == "":
		return nil, die("either 'max-workers' parameter or max_workers in datacenter.cfg must be set!")
	}
	return c.startTask("migrateall", "", func(w worker) error {
		all := c.ordered(false)
		if len(all) == 0 {
			w.log("no virtual guests matched, nothing to do..")
			return nil
		}
		started := 0
		for _, v := range all {
			p := params{"target": {target}}
			if v.running {
				p["online"] = []string{"1"}
			}
			if c.p.has("with-local-disks") && v.running {
				p["with-local-disks"] = []string{c.param("with-local-disks")}
			}
			w.log("Migrating VM %d", v.id)
			if _, err := c.one(w, http.MethodPost, v.node, strconv.Itoa(v.id)+"/migrate", p); err != nil {
				w.log("%v", err)
				continue
			}
			started++
		}
		if started == 0 {
			return die("no migrations worker started...")
		}
		w.log("All jobs finished, used %d workers in total.", started)
		return nil
	})
}
