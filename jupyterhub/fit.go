package jupyterhub

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
)

// Pool is a group of nodes that are chosen together.
type Pool struct {
	Name   string
	Labels map[string]string // that all its nodes have, and no other node; empty: no profile can name the pool
	Taints []corev1.Taint
	Nodes  []Node

	Shared    bool  // its GPUs are counted in shares
	GPUMemory Bytes // of a GPU, or of a share; 0: not known
}

// Node is what all notebooks on a node can have together: less than the machine has, by what its kernel
// needs, the kubelet keeps and other pods request.
type Node struct {
	Name      string
	CPU       float64 // cores
	Memory    Bytes
	GPUs      int            // or shares of GPUs
	Resources map[string]int // further extended resources, e.g. nvidia.com/mig-1g.5gb
	Pods      int            // 0: 110, the kubelet's own limit
	Disk      Bytes          // for what servers write outside of volumes; 0: not known
}

func (in Pool) gpus() (most int) {
	for _, n := range in.Nodes {
		most = max(most, n.GPUs)
	}
	return most
}

// has reports whether a node has some of a profile's further resources.
func (in Pool) has(amounts map[string]int) bool {
	for _, n := range in.Nodes {
		for name := range amounts {
			if n.Resources[name] > 0 {
				return true
			}
		}
	}
	return false
}

// Report says where each profile fits.
type Report struct {
	Pools []string       // names, in order
	Rows  []Row          // one for each profile, in order
	Apart []HomeConflict // pairs of profiles that one home cannot serve; only if homes stay on a node
}

// Row is one profile.
type Row struct {
	Profile string `json:"profile"`
	Cells   []Cell `json:"cells"`           // one for each pool, in order
	Total   int    `json:"atOnce"`          // servers of this profile at once, when nothing else runs
	Limit   string `json:"limit,omitempty"` // how a quota reduces Total; empty: not at all
}

// Cell is one profile on one pool.
type Cell struct {
	Count   int    `json:"count"`             // servers at once on all nodes of the pool
	Reason  string `json:"why,omitempty"`     // why there are none
	Largest string `json:"largest,omitempty"` // the largest of its kind that would fit a node; empty: other sizes do not help
}

// Fit compares every profile with every pool as the scheduler would: by what servers request
// of each node, their node selectors and their tolerations. Each number is for an empty
// cluster with servers of that one profile.
func Fit(profiles []spec.HubProfile, pools []Pool, quota spec.HubQuota) Report {
	r := Report{}
	for _, in := range pools {
		r.Pools = append(r.Pools, in.Name)
	}
	for _, p := range profiles {
		row := Row{Profile: p.Name}
		for _, in := range pools {
			cell := fit(p, in, pools)
			row.Cells = append(row.Cells, cell)
			row.Total += cell.Count
		}
		row.limit(p, quota)
		r.Rows = append(r.Rows, row)
	}
	return r
}

// Fit compares the hub's profiles with its pools. Servers with a scratch volume run only where
// there is storage for it.
func (h Hub) Fit() Report {
	var r Report
	for _, p := range spec.Variants(h.Profiles...) {
		pools := h.poolsOf(p)
		one := Fit([]spec.HubProfile{p}, pools, h.Quota)
		for i, in := range h.Pools {
			if len(in.Nodes) > 0 && len(pools[i].Nodes) == 0 {
				one.Rows[0].Cells[i] = Cell{Reason: cmp.Or(exclusionReason(p, in, h.Pools), "its nodes have no scratch storage")}
			}
		}
		r.Pools, r.Rows = one.Pools, append(r.Rows, one.Rows...)
	}
	if h.HomesStay && h.Home.Claim == "" {
		r.Apart = h.homeConflicts()
	}
	return r
}

// poolsOf returns the pools, with only those nodes that have the storage that a profile asks
// for.
func (h Hub) poolsOf(p spec.HubProfile) []Pool {
	if h.scratch(p) {
		return h.withScratch()
	}
	return h.Pools
}

// withScratch returns the pools with those nodes that have storage for scratch volumes.
func (h Hub) withScratch() []Pool {
	out := slices.Clone(h.Pools)
	for i := range out {
		out[i].Nodes = slices.DeleteFunc(slices.Clone(out[i].Nodes), func(n Node) bool { return len(h.ScratchNodes) > 0 && !slices.Contains(h.ScratchNodes, n.Name) })
	}
	return out
}

// limit is the number of servers that a quota allows.
func (r *Row) limit(p spec.HubProfile, q spec.HubQuota) {
	need := requestsOf(p)
	most := math.MaxInt
	var why string
	cut := func(n int, format string, args ...any) {
		if n < most {
			most, why = n, fmt.Sprintf(format, args...)
		}
	}
	if q.GPUs > 0 && need.gpus > 0 {
		cut(q.GPUs/need.gpus, "the quota of %d GPUs", q.GPUs)
	}
	if q.CPU > 0 && need.cpu > 0 {
		cut(int(milli(float64(q.CPU))/milli(need.cpu)), "the quota of %s cores", cores(float64(q.CPU)))
	}
	if q.Memory > 0 {
		cut(int(Bytes(q.Memory)/need.memory), "the quota of %s", Bytes(q.Memory))
	}
	if most < r.Total {
		r.Total, r.Limit = most, why
	}
}

func fit(p spec.HubProfile, in Pool, pools []Pool) Cell {
	if why := exclusionReason(p, in, pools); why != "" {
		return Cell{Reason: why}
	}
	if p.GPUs > 1 && in.Shared {
		// The plugin refuses more than one: two shares may be of the same GPU.
		return Cell{Reason: "one share of a GPU is the most that a server can have", Largest: "1 GPU"}
	}
	if p.GPUMemory > 0 && !in.Shared {
		return Cell{Reason: "its GPUs are not shared, so that nothing limits a GPU's memory"}
	}
	if p.GPUMemory > 0 && in.GPUMemory > 0 && Bytes(p.GPUMemory) > in.GPUMemory {
		return Cell{
			Reason:  fmt.Sprintf("a share of a GPU there has %s of memory", in.GPUMemory),
			Largest: fmt.Sprintf("GPU memory %s", in.GPUMemory),
		}
	}
	var cell Cell
	for _, n := range in.Nodes {
		cell.Count += n.holds(p)
	}
	if cell.Count == 0 {
		cell.Reason, cell.Largest = in.lacks(p)
	}
	return cell
}

// exclusionReason says why the scheduler would not consider the pool's nodes at all.
func exclusionReason(p spec.HubProfile, in Pool, pools []Pool) string {
	if len(in.Nodes) == 0 {
		return "it has no nodes"
	}
	if chosen, ok := pool(pools, p.Pool); p.Pool != "" && (!ok || !subset(chosen.Labels, in.Labels)) {
		return "it runs on pool " + p.Pool + " only"
	}
	if taint, found := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, in.Taints, tolerationsOf(p, pools), keepsAway, true); found {
		return "taint " + taint.ToString()
	}
	return ""
}

// keepsAway reports whether a taint keeps away pods that do not tolerate it: other taints are
// only a preference. An API without the operators Lt and Gt refuses the pod itself.
func keepsAway(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

func subset(of, all map[string]string) bool {
	for k, v := range of {
		if have, ok := all[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// maxPods is the kubelet's default.
const maxPods = 110

// holds is how many servers of the profile run on the node at once.
func (n Node) holds(p spec.HubProfile) int {
	need := requestsOf(p)
	count := cmp.Or(n.Pods, maxPods)
	if need.cpu > 0 {
		count = min(count, int(milli(n.CPU)/milli(need.cpu)))
	}
	count = min(count, int(n.Memory/need.memory))
	if need.gpus > 0 {
		count = min(count, n.GPUs/need.gpus)
	}
	if need.disk > 0 && n.Disk > 0 {
		count = min(count, int(n.Disk/need.disk))
	}
	for name, amount := range amounts(p) {
		count = min(count, n.Resources[name]/amount)
	}
	return max(count, 0)
}

// amounts are the profile's further resources, as numbers.
func amounts(p spec.HubProfile) map[string]int {
	if p.MIG == "" {
		return nil
	}
	return map[string]int{nvidia.MIGResource(p.MIG): 1}
}

// lacks says why no node of the pool has room for a server, and the largest server that the
// best node could run.
func (in Pool) lacks(p spec.HubProfile) (why, largest string) {
	need := requestsOf(p)
	best, nearest := in.Nodes[0], -1.0
	for _, n := range in.Nodes {
		near := math.Min(share(n.CPU, need.cpu), share(float64(n.Memory), float64(need.memory)))
		near = math.Min(near, share(float64(n.GPUs), float64(need.gpus)))
		if n.Disk > 0 {
			near = math.Min(near, share(float64(n.Disk), float64(need.disk)))
		}
		for name, amount := range amounts(p) {
			near = math.Min(near, share(float64(n.Resources[name]), float64(amount)))
		}
		if near > nearest {
			best, nearest = n, near
		}
	}
	var short, could []string
	if need.gpus > 0 {
		could = append(could, plural(min(need.gpus, best.GPUs), "GPU"))
		if best.GPUs < need.gpus {
			short = append(short, fmt.Sprintf("%s of %d", plural(best.GPUs, "GPU"), need.gpus))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(amounts(p))) {
		if amount := amounts(p)[name]; best.Resources[name] < amount {
			short = append(short, fmt.Sprintf("%d %s of %d", best.Resources[name], name, amount))
		}
	}
	if need.cpu > 0 {
		could = append(could, cores(math.Min(need.cpu, best.CPU))+" cores")
		if milli(best.CPU) < milli(need.cpu) {
			short = append(short, fmt.Sprintf("%s cores of %s", cores(best.CPU), cores(need.cpu)))
		}
	}
	memory := need.memory.String()
	if best.Memory < need.memory {
		memory = best.Memory.roughly()
		short = append(short, memory+" of "+need.memory.String())
	}
	if need.disk > best.Disk && best.Disk > 0 {
		short = append(short, best.Disk.roughly()+" of "+need.disk.String()+" of disk")
		memory += " with " + best.Disk.roughly() + " of disk"
	}
	why = "a node has " + strings.Join(short, ", ")
	if nearest <= 0 { // a resource that the node does not have at all
		return why, ""
	}
	return why, strings.Join(append(could, memory), ", ")
}

func share(have, need float64) float64 {
	if need <= 0 {
		return 1
	}
	return have / need
}

// milli counts cores as Kubernetes does, in thousandths; kubespawner passes them on as
// written, and Kubernetes rounds up.
func milli(c float64) int64 { return int64(math.Ceil(c*1000 - 1e-6)) }

// cores writes a number of cores, rounded down to what can be requested.
func cores(c float64) string {
	return strconv.FormatFloat(math.Floor(c*100+1e-6)/100, 'f', -1, 64)
}

// roughly writes an amount for people, rounded down: 124.5Gi.
func (b Bytes) roughly() string {
	if b < 10*GiB {
		return (b / MiB * MiB).String()
	}
	return strconv.FormatFloat(math.Floor(float64(b)/float64(GiB)*10)/10, 'f', -1, 64) + "Gi"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
