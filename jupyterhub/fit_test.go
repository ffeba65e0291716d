package jupyterhub

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// a100s are the nodes of the example with eight A100: four workers, and control
// planes on which nothing runs.
func a100s() []Pool {
	gpu := Pool{
		Name: "gpu", Labels: map[string]string{"homelab.cps-gpu.github.com/pool": "gpu"},
		Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}, GPUMemory: 40 * GiB,
	}
	for i := range 4 {
		gpu.Nodes = append(gpu.Nodes, Node{Name: fmt.Sprintf("wk-gpu%d", i+1), CPU: 15.5, Memory: 125*GiB - 420*MiB, GPUs: 2, Pods: 102})
	}
	cp := Pool{
		Name: "cp", Labels: map[string]string{"homelab.cps-gpu.github.com/pool": "cp"},
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
	}
	for i := range 3 {
		cp.Nodes = append(cp.Nodes, Node{Name: fmt.Sprintf("cp%d", i+1), CPU: 3, Memory: 13*GiB + 348*MiB})
	}
	return []Pool{gpu, cp}
}

func TestFitTable(t *testing.T) {
	profiles := []spec.HubProfile{
		{Name: "cpu", CPU: spec.CPU{Limit: 4}, Memory: spec.Memory{Limit: 8 * GiB}, Pool: "gpu"},
		{Name: "gpu", GPUs: 1, CPU: spec.CPU{Guarantee: 4, Limit: 8}, Memory: spec.Memory{Limit: 48 * GiB}, Pool: "gpu"},
		{Name: "gpus", GPUs: 2, CPU: spec.CPU{Limit: 14}, Memory: spec.Memory{Limit: 96 * GiB}},
		{Name: "four", GPUs: 4, CPU: spec.CPU{Limit: 14}, Memory: spec.Memory{Limit: 96 * GiB}, Pool: "gpu"},
		{Name: "all-cores", CPU: spec.CPU{Limit: 16}, Memory: spec.Memory{Limit: 8 * GiB}, Pool: "gpu"},
		{Name: "all-memory", Memory: spec.Memory{Limit: 128 * GiB}, Pool: "gpu"},
		{Name: "anywhere", Memory: spec.Memory{Limit: 2 * GiB}},
		{Name: "share", GPUs: 1, GPUMemory: 10 * GiB, Pool: "gpu"},
	}
	report := Fit(profiles, a100s(), spec.HubQuota{GPUs: 7})
	path := filepath.Join("testdata", "fit.txt")
	text := report.String() + "\n" + report.Err().Error() + "\n"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestFitRefusesTheClassicMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		p    spec.HubProfile
		want []string
	}{
		"more GPUs than any node":   {spec.HubProfile{GPUs: 4, Pool: "gpu"}, []string{"2 GPUs of 4", "The largest that fits: 2 GPUs"}},
		"a node's capacity in CPUs": {spec.HubProfile{CPU: spec.CPU{Guarantee: 16}, Pool: "gpu"}, []string{"15.5 cores of 16", "The largest that fits: 15.5 cores"}},
		"a limit is a guarantee":    {spec.HubProfile{CPU: spec.CPU{Limit: 16}, Pool: "gpu"}, []string{"15.5 cores of 16"}},
		"a node's memory":           {spec.HubProfile{Memory: spec.Memory{Guarantee: 128 * GiB}, Pool: "gpu"}, []string{"124.5Gi of 128Gi", "The largest that fits: 124.5Gi"}},
		"a taint":                   {spec.HubProfile{Pool: "cp", GPUs: 1}, []string{"on cp: a node has 0 GPUs of 1"}},
		"tainted nodes only":        {spec.HubProfile{}, []string{"on gpu: taint nvidia.com/gpu:NoSchedule; on cp: taint node-role.kubernetes.io/control-plane:NoSchedule"}},
		"MPS memory without MPS":    {spec.HubProfile{GPUs: 1, GPUMemory: GiB}, []string{"its GPUs are not shared"}},
		"MIG where there is none":   {spec.HubProfile{MIG: "1g.5gb", Pool: "gpu"}, []string{"0 nvidia.com/mig-1g.5gb of 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Name = "p"
			report := Fit([]spec.HubProfile{c.p}, a100s(), spec.HubQuota{})
			require.Zero(t, report.Rows[0].Total)
			for _, want := range c.want {
				require.ErrorContains(t, report.Err(), want)
			}
		})
	}
}

func TestFitShares(t *testing.T) {
	pools := a100s()
	pools[0].Shared, pools[0].GPUMemory = true, 10*GiB
	for i := range pools[0].Nodes {
		pools[0].Nodes[i].GPUs = 8
	}
	r := Fit([]spec.HubProfile{
		{Name: "share", GPUs: 1, GPUMemory: 10 * GiB}, {Name: "much", GPUs: 1, GPUMemory: 11 * GiB}, {Name: "two", GPUs: 2},
	}, pools, spec.HubQuota{})
	require.Equal(t, 32, r.Rows[0].Total)
	require.Zero(t, r.Rows[1].Total)
	require.Zero(t, r.Rows[2].Total)
	require.ErrorContains(t, r.Err(), "a share of a GPU there has 10Gi of memory")
	require.ErrorContains(t, r.Err(), "one share of a GPU is the most")
}

func TestFitScratch(t *testing.T) {
	h := Hub{
		Pools: append(a100s(), Pool{Name: "plain", Labels: map[string]string{"pool": "plain"}, Nodes: []Node{{Name: "p1", CPU: 8, Memory: 32 * GiB}, {Name: "p2", CPU: 8, Memory: 32 * GiB}}}),
		Hub: spec.Hub{Profiles: []spec.HubProfile{
			{Name: "cpu", Memory: spec.Memory{Limit: 8 * GiB}}, {Name: "gpu", GPUs: 1, Memory: spec.Memory{Limit: 8 * GiB}, Pool: "gpu"}, {Name: "plain", Memory: spec.Memory{Limit: 8 * GiB}, Pool: "plain"},
		},
			Scratch: &spec.HubScratch{Class: "scratch", Size: GiB}},
	}
	totals := func() (n []int) {
		for _, row := range h.Fit().Rows {
			n = append(n, row.Total)
		}
		return n
	}
	gets := func() (names []string) {
		for _, p := range h.Profiles {
			if volumes, ok := h.entry(p)["kubespawner_override"].(map[string]any)["volumes"].(map[string]any); ok && volumes["scratch"] != nil {
				names = append(names, p.Name)
			}
		}
		return names
	}
	require.Equal(t, []int{8, 8, 8}, totals(), "it is everywhere")
	require.Equal(t, []string{"cpu", "gpu", "plain"}, gets())

	h.ScratchNodes = []string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"}
	require.Equal(t, []int{8, 8, 8}, totals(), "profiles that cannot run where it is do without")
	require.Equal(t, []string{"gpu"}, gets())

	h.ScratchNodes = []string{"wk-gpu1", "p1"}
	require.Equal(t, []int{4, 2, 4}, totals(), "and others run where it is")
	require.Equal(t, []string{"cpu", "gpu", "plain"}, gets())
	h.ScratchNodes = []string{"p1"}
	h.Profiles = []spec.HubProfile{{Name: "any", Memory: spec.Memory{Limit: 8 * GiB}}}
	for i := range h.Pools {
		h.Pools[i].Taints = nil
	}
	row := h.Fit().Rows[0]
	require.Equal(t, 4, row.Total)
	require.Equal(t, "its nodes have no scratch storage", row.Cells[0].Reason)
}

func TestFitQuota(t *testing.T) {
	p := []spec.HubProfile{{Name: "p", GPUs: 1, CPU: spec.CPU{Limit: 2}, Memory: spec.Memory{Limit: 8 * GiB}}}
	for _, c := range []struct {
		q     spec.HubQuota
		total int
	}{{spec.HubQuota{}, 8}, {spec.HubQuota{GPUs: 3}, 3}, {spec.HubQuota{CPU: 5}, 2}, {spec.HubQuota{Memory: 8 * GiB}, 1}, {spec.HubQuota{GPUs: 100}, 8}, {spec.HubQuota{Memory: GiB}, 0}} {
		require.Equal(t, c.total, Fit(p, a100s(), c.q).Rows[0].Total, "%+v", c.q)
	}
	require.ErrorContains(t, Fit(p, a100s(), spec.HubQuota{Memory: GiB}).Err(), "the quota of 1Gi")
}

// schedule is a scheduler in the simplest words: it places one pod after the other
// on any node that takes it, until none does.
func schedule(p spec.HubProfile, pools []Pool) int {
	type free struct {
		pool   Pool
		node   Node
		cpu    int64
		memory Bytes
		pods   int
		gpus   int
	}
	var nodes []*free
	for _, in := range pools {
		for _, n := range in.Nodes {
			nodes = append(nodes, &free{pool: in, node: n, cpu: milli(n.CPU), memory: n.Memory, pods: cmp.Or(n.Pods, maxPods), gpus: n.GPUs})
		}
	}
	h := Hub{Pools: pools}
	entry := h.entry(p)["kubespawner_override"].(map[string]any)
	cpu, _ := entry["cpu_guarantee"].(float64)
	fits := func(f *free) bool {
		if selector, ok := entry["node_selector"].(map[string]any); ok {
			for k, v := range selector {
				if f.pool.Labels[k] != v {
					return false
				}
			}
		}
		for _, taint := range f.pool.Taints {
			borne := taint.Effect == corev1.TaintEffectPreferNoSchedule
			if list, ok := entry["tolerations"].([]any); ok {
				for _, one := range list {
					m := one.(map[string]any)
					effect, said := m["effect"]
					value, _ := m["value"].(string)
					same := m["key"] == taint.Key && (m["operator"] == "Exists" || value == taint.Value)
					borne = borne || same && (!said || effect == string(taint.Effect))
				}
			}
			if !borne {
				return false
			}
		}
		return f.pods >= 1 && f.cpu >= milli(cpu) && f.memory >= requestsOf(p).memory && f.gpus >= p.GPUs
	}
	for placed := 0; ; placed++ {
		var on *free
		for _, f := range nodes {
			if fits(f) {
				on = f
				break
			}
		}
		if on == nil {
			return placed
		}
		on.pods, on.cpu, on.memory, on.gpus = on.pods-1, on.cpu-milli(cpu), on.memory-requestsOf(p).memory, on.gpus-p.GPUs
	}
}

// someWorld makes pools and a profile of small numbers.
func someWorld(r *rand.Rand) (spec.HubProfile, []Pool) {
	taints := []corev1.Taint{
		{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Value: "ml", Effect: corev1.TaintEffectNoExecute},
		{Key: "maybe", Effect: corev1.TaintEffectPreferNoSchedule},
	}
	var pools []Pool
	for i := range r.IntN(4) {
		in := Pool{Name: fmt.Sprint("p", i), Labels: map[string]string{"pool": fmt.Sprint("p", r.IntN(i+1))}} // two may have one label
		for _, taint := range taints {
			if r.IntN(3) == 0 {
				in.Taints = append(in.Taints, taint)
			}
		}
		for j := range r.IntN(4) {
			in.Nodes = append(in.Nodes, Node{
				Name: fmt.Sprint(i, j), CPU: float64(r.IntN(64)) / 4, Memory: Bytes(r.IntN(64)) * GiB / 2, GPUs: r.IntN(5), Pods: r.IntN(20),
			})
		}
		pools = append(pools, in)
	}
	p := spec.HubProfile{
		Name: "p", Image: "i", CPU: spec.CPU{Guarantee: spec.Cores(r.IntN(40)) / 8}, Memory: spec.Memory{Guarantee: spec.Size(r.IntN(20)) * GiB / 4}, GPUs: max(0, r.IntN(5)-2),
	}
	p.CPU.Limit, p.Memory.Limit = spec.Cores(r.IntN(2)*8), spec.Size(r.IntN(2))*16*GiB
	if len(pools) > 0 && r.IntN(2) == 0 {
		p.Pool = pools[r.IntN(len(pools))].Name
	}
	return p, pools
}

func requireAsScheduled(t testing.TB, p spec.HubProfile, pools []Pool) {
	row := Fit([]spec.HubProfile{p}, pools, spec.HubQuota{}).Rows[0]
	require.Equal(t, schedule(p, pools), row.Total, "%+v on %+v", p, pools)
	for i, cell := range row.Cells {
		require.Equal(t, cell.Count == 0, cell.Reason != "", "%+v", cell)
		if cell.Count == 0 && len(pools[i].Nodes) > 0 {
			require.NotContains(t, cell.Reason, "a node has \n")
		}
	}
}

func TestFitIsWhatASchedulerDoes(t *testing.T) {
	for seed := range uint64(3000) {
		p, pools := someWorld(rand.New(rand.NewPCG(seed, 1)))
		requireAsScheduled(t, p, pools)
	}
}

func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		p, pools := someWorld(rand.New(rand.NewPCG(a, b)))
		requireAsScheduled(t, p, pools)
	})
}

// TestLargestFits: what is said to be the largest does fit, when one asks for it.
func TestLargestFits(t *testing.T) {
	for seed := range uint64(2000) {
		p, pools := someWorld(rand.New(rand.NewPCG(seed, 7)))
		p.GPUMemory = 0
		for i, cell := range Fit([]spec.HubProfile{p}, pools, spec.HubQuota{}).Rows[0].Cells {
			if cell.Largest == "" {
				continue
			}
			smaller := p
			smaller.GPUs, smaller.CPU, smaller.Memory.Limit = 0, spec.CPU{}, 0
			for _, part := range strings.Split(cell.Largest, ", ") {
				var n float64
				switch {
				case strings.Contains(part, "GPU"):
					fmt.Sscan(part, &smaller.GPUs)
				case strings.HasSuffix(part, "cores"):
					fmt.Sscan(part, &n)
					smaller.CPU.Guarantee = spec.Cores(n)
				default:
					smaller.Memory.Guarantee = spec.Size(resource.NewQuantity(0, resource.BinarySI).Value())
					q := resource.MustParse(part)
					smaller.Memory.Guarantee = spec.Size(q.Value())
				}
			}
			if smaller.Memory.Guarantee == 0 {
				continue // no memory at all is left on that node
			}
			require.Positive(t, fit(smaller, pools[i], pools).Count, "%+v is said to fit %+v: %s", p, pools[i], cell.Largest)
		}
	}
}

// Servers' guaranteed disk counts, where the disk of nodes is known.
func TestFitDisk(t *testing.T) {
	p := spec.HubProfile{Name: "p", EphemeralStorage: spec.EphemeralStorage{Guarantee: 20 * GiB, Limit: 40 * GiB}}
	pools := []Pool{{Name: "a", Nodes: []Node{{Name: "n", CPU: 8, Memory: 64 * GiB, Disk: 54 * GiB}}}}
	require.Equal(t, 2, Fit([]spec.HubProfile{p}, pools, spec.HubQuota{}).Rows[0].Total)
	p.EphemeralStorage.Guarantee = 0
	require.Equal(t, 1, Fit([]spec.HubProfile{p}, pools, spec.HubQuota{}).Rows[0].Total, "Kubernetes requests what is limited")
	p.EphemeralStorage.Limit = 60 * GiB
	require.ErrorContains(t, Fit([]spec.HubProfile{p}, pools, spec.HubQuota{}).Err(), "a node has 54Gi of 60Gi of disk. The largest that fits: 1Gi with 54Gi of disk")
	pools[0].Nodes[0].Disk = 0
	require.Equal(t, 64, Fit([]spec.HubProfile{p}, pools, spec.HubQuota{}).Rows[0].Total, "not known")
	override := Hub{}.override(p)
	require.Equal(t, map[string]any{"ephemeral-storage": "60Gi"}, override["extra_resource_limits"])
	require.Equal(t, override["extra_resource_limits"], override["extra_resource_guarantees"])
}
