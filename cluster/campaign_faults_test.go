package cluster_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// fault is one way in which a request can go wrong.
type fault struct {
	name      string
	of        string            // what: ofSSH, ofKubernetes; empty: a request to Proxmox
	rule      pvesim.Rule       // of Proxmox
	torn      torn              // a connection
	storm     storm             // of Kubernetes
	where     func(target) bool // nil: anywhere
	kills     bool              // the machine that asks dies
	lasting   bool              // nothing goes right from then on
	again     bool              // each time that the same is asked
	meanwhile func(b *battle, vmid int)
}

func (f fault) applies(to target) bool { return f.of == to.of && (f.where == nil || f.where(to)) }

// intruder is the name of VMs that somebody makes in between.
const intruder = "intruder"

// faults are all of them.
func faults() []fault { return slices.Concat(proxmoxFaults(), lineFaults(), kubeFaults()) }

// proxmoxFaults are in Proxmox's own words. What happens after the effect of a
// request without one is what happens before it, or before the next.
func proxmoxFaults() []fault {
	return []fault{
		{name: "crash-before", kills: true, rule: pvesim.Rule{Drop: true}},
		{name: "crash-after", kills: true, where: target.mutating, rule: pvesim.Rule{Drop: true, After: true}},
		{name: "lock-500", rule: pvesim.Rule{Status: 500, Message: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"}},
		{name: "lock-500-for-ever", again: true, where: target.mutating, rule: pvesim.Rule{Status: 500, Message: "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"}},
		{name: "596-without-effect", rule: pvesim.Rule{Status: 596, Message: "Connection timed out"}},
		{name: "596-with-effect", where: target.mutating, rule: pvesim.Rule{Status: 596, Message: "Connection timed out", After: true}},
		{name: "no-worker", where: target.task, rule: pvesim.Rule{Status: 500, Message: "got no worker upid - start worker failed"}},
		{name: "dropped", rule: pvesim.Rule{Drop: true}},
		{name: "dropped-after-effect", where: target.mutating, rule: pvesim.Rule{Drop: true, After: true}},
		{name: "slow-by-31s", rule: pvesim.Rule{Delay: 31 * time.Second}},
		{name: "task-failed", where: target.task, rule: pvesim.Rule{TaskError: "command '/usr/bin/qemu-img' failed: exit code 1"}},
		{name: "task-killed", where: target.task, rule: pvesim.Rule{TaskError: pvesim.Killed}},
		{name: "task-lock", where: target.task, rule: pvesim.Rule{TaskError: "can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout"}},
		{name: "task-slow", where: target.task, rule: pvesim.Rule{TaskDelay: 4 * time.Minute}},
		{name: "storage-full", again: true, where: target.allocates, rule: pvesim.Rule{TaskError: "unable to create image: not enough free space on storage", Status: 0}},
		{name: "agent-silent", where: target.agent, rule: pvesim.Rule{Status: 500, Message: "QEMU guest agent is not running"}},
		{name: "agent-silent-for-ever", again: true, where: target.agent, rule: pvesim.Rule{Status: 500, Message: "QEMU guest agent is not running"}},
		{name: "token-expired", lasting: true, rule: pvesim.Rule{Status: 401, Message: "authentication failure"}},
		{name: "host-gone", lasting: true, rule: pvesim.Rule{Status: 595, Message: "Connection refused"}},
		{name: "described-by-others", where: target.node, meanwhile: func(b *battle, id int) { b.as("PUT", vmPath(id)+"/config", "description=mine") }},
		{name: "resized-by-others", where: target.node, meanwhile: func(b *battle, id int) { b.as("PUT", vmPath(id)+"/config", "memory=3072&cores=1") }},
		{name: "stopped-by-others", where: target.ours, meanwhile: func(b *battle, id int) { b.as("POST", vmPath(id)+"/status/stop", "") }},
		{name: "destroyed-by-others", where: target.ours, meanwhile: func(b *battle, id int) {
			b.as("POST", vmPath(id)+"/status/stop", "")
			time.Sleep(5 * time.Second)
			b.as("DELETE", vmPath(id)+"?purge=1", "")
			time.Sleep(10 * time.Second)
		}},
		{name: "backed-up-by-others", where: target.ours, meanwhile: func(b *battle, id int) {
			b.w.sim.LockVM(id, "backup")
			time.Sleep(20 * time.Second)
			b.w.sim.LockVM(id, "")
		}},
		{name: "next-vmid-taken", where: func(to target) bool {
			return to.path == "/cluster/nextid" || to.mutating() && strings.HasSuffix(to.path, "/clone")
		},
			meanwhile: func(b *battle, _ int) {
				for id := 100; id < 120; id++ {
					b.as("POST", "/nodes/pve1/qemu", fmt.Sprintf("vmid=%d&name=%s&memory=512", id, intruder))
				}
			}},
	}
}

func vmPath(id int) string { return fmt.Sprintf("/nodes/pve1/qemu/%d", id) }

// target is a request by what it is about, not by its number: requests of steps that
// run side by side come in any order, and VMIDs are given in that order.
type target struct {
	of           string // as a fault's
	method, path string // with names in place of VMIDs and of tasks; of connections direction and machine
	vm           string // name of the VM that it is about
	nth          int    // of those with the same method and path; of connections the byte
}

func (to target) String() string {
	name := fmt.Sprintf("%s:%s#%d", to.method, to.path, to.nth)
	if to.of != "" {
		name = to.of + ":" + name
	}
	return name
}

func (to target) same(o target) bool { return to.method == o.method && to.path == o.path }

func (to target) mutating() bool { return to.method != "GET" && to.method != "TRY" }

// again reports whether the request looks once more at what runs: of several such looks
// one is enough.
func (to target) again() bool {
	return !to.mutating() && to.nth > 2 && (to.of == ofKubernetes || strings.HasSuffix(to.path, "/tasks") || strings.HasSuffix(to.path, "/exec-status"))
}

// task reports whether the request starts one.
func (to target) task() bool {
	return to.mutating() && !strings.HasPrefix(to.path, "/cluster/") && !to.agent() && (to.method != "PUT" || !strings.HasSuffix(to.path, "/config"))
}

// allocates reports whether the request's task takes room on a storage.
func (to target) allocates() bool {
	return to.task() && !strings.Contains(to.path, "/status/") && to.method != "DELETE" && !strings.HasSuffix(to.path, "/template")
}

func (to target) agent() bool { return strings.Contains(to.path, "/agent/") }

// ours reports whether the request is about a VM of ours.
func (to target) ours() bool { return to.vm != "" && !strings.HasPrefix(to.vm, "neighbour") }

// node reports whether the request is about a node's VM. What somebody writes into
// the configuration of a template is nothing to us: clones get a shape of their own.
func (to target) node() bool { return to.ours() && !strings.Contains(to.vm, "-template-") }

// namer gives requests their names. It learns whose VMID is whose as it goes.
type namer struct {
	mu    sync.Mutex
	vms   map[string]string // VMID → name
	known map[string]int    // name → VMID
	seen  map[[2]string]int
}

var (
	vmInPath   = regexp.MustCompile(`^(/nodes/[^/]+/qemu)/(\d+)`)
	taskInPath = regexp.MustCompile(`UPID:([^:/]+):[0-9A-F]+:[0-9A-F]+:[0-9A-F]+:([a-z]+):(\d*)[^/]*`)
	digestIn   = regexp.MustCompile(`-[0-9a-f]{12}\b`)
)

func (n *namer) ids() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known
}

func (n *namer) name(r pvesim.Request) target {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.vms == nil {
		n.vms, n.known, n.seen = map[string]string{}, map[string]int{}, map[[2]string]int{}
	}
	if name := r.Params.Get("name"); name != "" {
		for _, key := range []string{"newid", "vmid"} {
			if id, err := strconv.Atoi(r.Params.Get(key)); err == nil && r.Method == "POST" {
				n.vms[r.Params.Get(key)], n.known[name] = name, id
			}
		}
	}
	to := target{method: r.Method, path: r.Path}
	if m := vmInPath.FindStringSubmatch(r.Path); m != nil {
		to.vm = n.vms[m[2]]
		to.path = m[1] + "/" + to.vm + strings.TrimPrefix(r.Path, m[0])
	}
	if strings.Contains(r.Path, "UPID:") {
		if m := taskInPath.FindStringSubmatch(r.Path); m != nil {
			to.path = strings.Replace(to.path, m[0], "<"+m[2]+" "+n.vms[m[3]]+">", 1)
		}
	}
	if strings.Contains(to.path, "-") {
		to.path = digestIn.ReplaceAllString(to.path, "")
	}
	key := [2]string{to.method, to.path}
	n.seen[key]++
	to.nth = n.seen[key]
	return to
}
