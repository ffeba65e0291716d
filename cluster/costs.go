package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/placement"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

// What each step interrupts or destroys; docs/consent.md has the table. A step that drains,
// stops or deletes something declares it here, and does it only with consent.

// away is how long a planned restart of a node takes: drained, off, on, Ready again with
// its GPUs. Without work on it two minutes; pods get up to five to end, and a host with
// much memory pins it for the guest page by page.
const away = "2 to 10 min"

// costTime limits the wait for the list of running work: a plan can be shown without it.
const costTime = 10 * time.Second

// workTime is how long an observation of the running work stays valid: the steps of one plan
// share it, and a step that had to wait observes again.
const workTime = 15 * time.Second

// workSeen is the running work by node, as one Plan or Run observed it.
type workSeen struct {
	mu   sync.Mutex
	work *consent.Work
	at   time.Time
}

// work observes the running work by node; nil if there is no cluster yet.
func (c *Cluster) work(ctx context.Context) (*consent.Work, error) {
	seen := run.Of[workSeen](ctx)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.work != nil && time.Since(seen.at) < workTime {
		return seen.work, nil
	}
	seen.work = nil
	limit := run.Limit(c.spec, costTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	client, err := c.kube(ctx)
	if errors.Is(err, errUnformed) {
		return nil, nil
	}
	if err == nil {
		seen.work, err = consent.Look(ctx, client)
		seen.at = time.Now()
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return seen.work, err
}

// users names whose work ends if a node goes down, or says why that is not known.
func (c *Cluster) users(ctx context.Context, of func(*consent.Work) []string) []string {
	w, err := c.work(ctx)
	switch {
	case err != nil:
		return []string{"cannot find out whose work ends: " + printable.FirstLine(err.Error())}
	case w == nil:
		return nil
	}
	return of(w)
}

// stops is the cost of nodes that are drained, go down and come back.
func (c *Cluster) stops(ctx context.Context, why string, names ...string) []converge.Cost {
	var out []converge.Cost
	for _, name := range names {
		cost := converge.Cost{Machine: name, Kind: converge.Stops, Why: why, Away: away}
		of := func(w *consent.Work) []string { return w.On(name) }
		if c.nodes.FileServer(name) { // it is not drained: mounts are hard
			of = func(w *consent.Work) []string { return w.Notebooks("") }
			cost.Why += "; clients of its volumes wait until it is back"
		}
		cost.Users = c.users(ctx, of)
		out = append(out, cost)
	}
	return out
}

// summary names what of a diff calls for a restart.
func summary(d drift.Diff) string {
	var paths []string
	for _, f := range d {
		if f.Effect == drift.Restart && !slices.Contains(paths, f.Path) {
			paths = append(paths, f.Path)
		}
	}
	return "other " + strings.Join(paths, ", ")
}

// costsOfVM is what a change of a VM that runs costs: its restart, or a disk that is pulled
// out.
func (c *Cluster) costsOfVM(n spec.Node) func(context.Context, *proxmox.VM, drift.Diff) []converge.Cost {
	return func(ctx context.Context, vm *proxmox.VM, d drift.Diff) []converge.Cost {
		if vm == nil || !vm.Running || d.Effect() > drift.Restart { // it is not there, or what is asked is refused
			return nil
		}
		var out []converge.Cost
		if d.Effect() == drift.Restart {
			out = c.stops(ctx, summary(d), n.Name)
		}
		for _, f := range d {
			if slot, _ := strings.CutPrefix(f.Path, "disk/"); f.Want == nodes.Detached {
				disk, _ := vm.Disk(slot)
				out = append(out, converge.Cost{
					Machine: "disk " + disk.Serial + " of " + n.Name, Kind: converge.Stops, Why: "no longer in the file: detached, its volume is kept",
					Holds: []string{disk.Size.String()},
				})
			}
		}
		return out
	}
}

// costsOfCards is what other cards cost: a restart of the node, and of those that have
// them now.
func (c *Cluster) costsOfCards(n spec.Node) func(context.Context, *placement.Allotment, drift.Diff) []converge.Cost {
	return func(ctx context.Context, a *placement.Allotment, _ drift.Diff) []converge.Cost {
		if len(n.GPUs.Mapping) > 0 {
			return nil // refused
		}
		if together, err := c.exchanges(ctx, n, a); together || err != nil { // or it cannot be told
			return c.stops(ctx, "cards change hands", c.running(ctx, append([]string{n.Name}, a.Holders(n.Name)...)...)...)
		}
		var have []string
		if m := placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name)); m != nil {
			have = placement.Addresses(m, n.Host)
		}
		if grows(c.mapping(n, a), n.Host, have) {
			return nil // where cards only come, the VM's own step restarts it
		}
		return c.stops(ctx, "other cards", c.running(ctx, n.Name)...)
	}
}

// running are the nodes among names with a running machine that has cards, or may have.
func (c *Cluster) running(ctx context.Context, names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		n, _ := c.spec.Node(name)
		vm, err := c.holding(ctx, n)
		return err == nil && (vm == nil || !vm.Running)
	})
}

// costsOfDriver is what another driver costs a joined node: a restart loads it.
func (c *Cluster) costsOfDriver(n spec.Node) func(context.Context, driverSeen, drift.Diff) []converge.Cost {
	return func(ctx context.Context, s driverSeen, _ drift.Diff) []converge.Cost {
		if !s.mayLoad() {
			return nil
		}
		if nodes.SeenOf(ctx, n.Name).Absent.Load() {
			return nil
		}
		if have, err := k3s.Observe(ctx, c.nodes.Root(n.Name)); err == nil && have.Role == k3s.RoleNone {
			return nil // it is still to join, and nobody misses it
		}
		return c.stops(ctx, "NVIDIA's driver "+s.want.String()+" is loaded by a restart", n.Name)
	}
}

// costsOfK3s is what another version of K3s costs. Other settings cost nothing: only K3s
// restarts, one node after the other, and pods keep running.
func (c *Cluster) costsOfK3s(n spec.Node) func(context.Context, k3s.State, drift.Diff) []converge.Cost {
	return func(ctx context.Context, have k3s.State, _ drift.Diff) []converge.Cost {
		if !stale(have, c.spec.K3s.Version) {
			return nil
		}
		return c.stops(ctx, fmt.Sprintf("K3s %s → %s", have.Version, c.spec.K3s.Version), n.Name)
	}
}

// costsOfMarks is what new taints cost: those with NoExecute end what does not tolerate them.
func (c *Cluster) costsOfMarks(n spec.Node, marks kube.Marks) func(context.Context, *kube.Node, drift.Diff) []converge.Cost {
	return func(ctx context.Context, have *kube.Node, _ drift.Diff) []converge.Cost {
		var out []converge.Cost
		for _, t := range marks.Taints {
			if have == nil || t.Effect != string(corev1.TaintEffectNoExecute) || slices.Contains(have.Taints, t) {
				continue
			}
			taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffectNoExecute}
			if users := c.users(ctx, func(w *consent.Work) []string { return w.Untolerant(n.Name, taint) }); len(users) > 0 {
				out = append(out, converge.Cost{
					Machine: "work on " + n.Name, Kind: converge.Stops, Why: "the taint " + t.String() + " ends pods that do not tolerate it", Users: users,
				})
			}
		}
		if have != nil && strings.HasPrefix(have.Labels[sharingLabel], spec.SharingMPS) && have.Labels[sharingLabel] != marks.Labels[sharingLabel] {
			out = append(out, c.endsMPS(ctx, n)...)
		}
		return out
	}
}

// endsMPS is the cost of stopping or restarting the MPS daemon on a node: the jobs that
// compute through it, if any.
func (c *Cluster) endsMPS(ctx context.Context, n spec.Node) []converge.Cost {
	users := c.users(ctx, func(w *consent.Work) []string { return w.Ends(n.Name) })
	if len(users) == 0 {
		return nil
	}
	return []converge.Cost{{
		Machine: "MPS on " + n.Name, Kind: converge.Stops, Why: "GPU sharing changes, and jobs that use its daemon end", Users: users,
	}}
}

// costsOfPlugin is what another device plugin costs: its pods restart, which affects only
// jobs that compute through the MPS daemon.
func (c *Cluster) costsOfPlugin(ctx context.Context, d, _ drift.Diff) []converge.Cost {
	mps := func(f drift.Field) bool {
		return f.Have != "" && strings.HasPrefix(f.Path, "daemonset/") && strings.Contains(f.Path, "-mps/")
	}
	if !slices.ContainsFunc(d, mps) {
		return nil
	}
	var out []converge.Cost
	for _, n := range c.spec.GPUNodes() {
		if n.GPUs.Sharing.Strategy == spec.SharingMPS {
			out = append(out, c.endsMPS(ctx, n)...)
		}
	}
	return out
}

// costsOfRemoval is what is lost with machines that are no longer in the file.
func (c *Cluster) costsOfRemoval(ctx context.Context, gone []proxmox.Summary, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, s := range gone {
		vm, err := c.Proxmox.Listed(ctx, names.Tag(c.spec), s)
		if vm == nil && err == nil {
			continue
		}
		out = append(out, c.destroys(ctx, s.Name, "no longer in the file", vm, err))
	}
	return out
}

// destroys is the cost of destroying a machine with its disks. err is why it could not be read.
func (c *Cluster) destroys(ctx context.Context, name, why string, vm *proxmox.VM, err error) converge.Cost {
	if name == "" && vm != nil {
		name = fmt.Sprintf("vm%d", vm.VMID)
	}
	cost := converge.Cost{
		Machine: cmp.Or(name, "nameless"), Kind: converge.Destroys, Why: why,
		Users: c.users(ctx, func(w *consent.Work) []string { return w.On(name) }),
		Holds: c.users(ctx, func(w *consent.Work) []string { return w.Volumes(name) }),
	}
	if err != nil {
		cost.Holds = append(cost.Holds, "its disks are not readable: "+printable.FirstLine(err.Error()))
	}
	if vm == nil {
		return cost
	}
	for _, d := range vm.Extra() {
		cost.Holds = append(cost.Holds, diskWords(d))
	}
	for _, volume := range vm.Unused {
		cost.Holds = append(cost.Holds, "the unused disk "+volume)
	}
	return cost
}

// diskWords names a disk of a machine, for the question whether it may be destroyed.
func diskWords(d proxmox.Disk) string {
	if d.Serial == "" {
		return fmt.Sprintf("disk %s (%s), which the file does not name", d.Slot, d.Size)
	}
	return fmt.Sprintf("disk %s (%s)", d.Serial, d.Size)
}
