package cluster_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// measure turns the measurements on: go test ./cluster -run Measure -measure.
// What is deterministic among them (requests, virtual time) is asserted elsewhere.
// planned is how many VMs TestMeasurePlan looks at.
const planned = 1000

var measure = flag.Bool("measure", false, "print what docs/performance.md records")

// sized is the eight-A100 site with as many workers, without GPUs beyond the first
// four, on a host that is large enough.
func sized(t testing.TB, nodes int) (*spec.Spec, pvesim.Model) {
	t.Helper()
	model := pvesim.EightA100()
	model.Hosts[0].CPUs, model.Hosts[0].Memory = 1<<20, 1<<50
	for i := range model.Hosts[0].Storages {
		model.Hosts[0].Storages[i].Size = 1 << 60
	}
	text := example(t, "eight-a100")
	text = strings.Replace(text, "memory: 1TiB, gpus: 8, storage: {vmdata: 2TiB}", "memory: 512TiB, gpus: 8", 1)
	more := nodes - 7
	if nodes < 7 {
		text = strings.Replace(strings.Replace(text, "count: 4", "count: 1", 1), "[10.0.0.21-10.0.0.24]", "[10.0.0.21]", 1)
		more = nodes - 4
	}
	if more > 0 {
		text = strings.Replace(strings.Replace(text, "10.42.0.0/16", "10.64.0.0/12", 1), "10.43.0.0/16", "10.96.0.0/16", 1)
		text = strings.ReplaceAll(text, "10.0.0.0/24", "10.0.0.0/20")
		text += fmt.Sprintf("\n  cpu:\n    role: agent\n    count: %d\n    prefix: cpu\n    addresses: [10.0.1.1-10.0.%d.%d]\n    cores: 4\n    memory: 8GiB\n    disks:\n      os: {size: 100GiB}\n",
			more, 1+more/256, more%256)
		text = strings.Replace(text, "10.0.1.1-10.0.1.0]", "10.0.1.1]", 1)
	}
	return parse(t, text), model
}

// makespan brings nodes up from nothing and returns how long that took in the
// simulated world, and for real.
func makespan(t *testing.T, nodes int) (report *converge.Report, virtual, real time.Duration, w *world) {
	t.Helper()
	begun := wall()
	synctest.Test(t, func(t *testing.T) {
		spec, model := sized(t, nodes)
		w = newWorld(t, model)
		start := time.Now()
		report = w.up(t, spec)
		virtual = time.Since(start)
	})
	return report, virtual, wall() - begun, w
}

// bound is the least time in which a site of that size could be there: each step
// takes as long as it does where nothing else goes on (alone, a run with three
// servers and one worker of each kind), all disks are made one after the other, as
// Proxmox does on one storage, and nothing waits for anything else.
func bound(alone *converge.Report, nodes *converge.Report, lock func(node string) time.Duration) time.Duration {
	least := map[string]time.Duration{} // by kind of step
	for _, s := range alone.Steps {
		kind := kindOf(s.Step)
		if d := s.Ended.Sub(s.Started); least[kind] == 0 || d < least[kind] {
			least[kind] = d
		}
	}
	var disks time.Duration
	for _, s := range nodes.Steps {
		if kind, node, _ := strings.Cut(s.Step, "/"); kind == "vm" {
			disks += lock(node)
		}
	}
	servers := least["template"] + least["vm server"] + least["guest"] + least["k3s first"] + least["api"] + 2*least["k3s server"] + least["node server"]
	workers := least["template"] + disks + least["vm agent"] - lock("cpu1") + least["guest"] + least["k3s agent"] + least["node agent"]
	return max(servers, workers)
}

// kindOf is the kind of a step with the role of its node, where that matters.
func kindOf(step string) string {
	kind, node, _ := strings.Cut(step, "/")
	role := "agent"
	if strings.HasPrefix(node, "cp") && !strings.HasPrefix(node, "cpu") {
		role = "server"
	}
	switch {
	case step == "k3s/cp1":
		return "k3s first"
	case kind == "vm", kind == "k3s", kind == "node":
		return kind + " " + role
	}
	return kind
}

// diskTime is how long pvesim's storage is held while a node's disks are made:
// system disk and firmware variables are linked, scratch is new.
func diskTime(node string) time.Duration {
	held := 2 * 400 * time.Millisecond
	if strings.HasPrefix(node, "wk") {
		held += 300 * time.Millisecond
	}
	return held
}

func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: go tool mage bench")
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	defer func() { require.NoError(t, out.Flush()) }()
	fmt.Fprintf(out, "%d cores, %s\n\n", runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(out, "7 nodes, nothing to do\t%d requests\t%s\n\n", len(noop(t)), strings.Join(noop(t), " "))
	alone, _, _, _ := makespan(t, 5)
	for _, n := range []int{7, 100} {
		report, virtual, real, w := makespan(t, n)
		least := bound(alone, report, diskTime)
		fmt.Fprintf(out, "%d nodes, from nothing\t%s virtual\t%s real\tleast possible %s\tratio %.3f\n", n,
			virtual.Round(time.Millisecond), real.Round(time.Millisecond), least.Round(time.Millisecond), float64(virtual)/float64(least))
		fmt.Fprintf(out, "\tcritical path\t%s\n", strings.Join(critical(report), " → "))
		for _, line := range tally(w) {
			fmt.Fprintf(out, "\t%s\n", line)
		}
	}
}

// noop lists what a run asks of Proxmox that finds nothing to do.
func noop(t *testing.T) (asked []string) {
	synctest.Test(t, func(t *testing.T) {
		spec, model := sized(t, 7)
		w := newWorld(t, model)
		w.up(t, spec)
		w.sim.ForgetRequests()
		w.up(t, spec)
		for _, r := range w.sim.Requests() {
			asked = append(asked, r.Path)
		}
	})
	return asked
}

// TestMeasurePlan plans a site of a thousand VMs that is there already.
func TestMeasurePlan(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: go tool mage bench")
	}
	synctest.Test(t, func(t *testing.T) {
		spec, model := sized(t, planned)
		w := newWorld(t, model)
		begun := wall()
		w.up(t, spec)
		up := wall() - begun
		before := live()
		requests := len(w.sim.Requests())
		c := w.cluster(t, spec)
		defer c.Close()
		begun = wall()
		plan, err := c.Up().Plan(t.Context())
		took := wall() - begun
		require.NoError(t, err)
		require.NoError(t, plan.Err())
		held := live() - before // with its connections still open
		fmt.Printf("%d VMs, from nothing %s real; plan of what is there: %s real, changes: %t, %d requests to Proxmox, %d MiB held by the plan and its connections (both ends), %d MiB by the simulator\n",
			planned, up.Round(time.Millisecond), took.Round(time.Millisecond), plan.Changes(), len(w.sim.Requests())-requests, held>>20, before>>20)
	})
}

// live is what the process holds once the garbage is gone.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// tally counts a world's requests to Proxmox by what they are for.
func tally(w *world) []string {
	count := map[string]int{}
	for _, r := range w.sim.Requests() {
		what := "looks"
		switch {
		case strings.Contains(r.Path, "/agent/"):
			what = "guest agent (baking, host keys)"
		case strings.HasSuffix(r.Path, "/tasks"):
			what = "shared task polls"
		case r.Mutating && strings.Contains(r.Path, "/mapping/"):
			what = "mutating: mappings"
		case r.Mutating && (strings.Contains(r.Path, "/qemu") || strings.Contains(r.Path, "/upload")):
			what = "mutating: VMs and template"
		case r.Mutating:
			what = "mutating: image"
		}
		count[what]++
	}
	if os.Getenv("PATHS") != "" {
		by := map[string]int{}
		for _, r := range w.sim.Requests() {
			by[r.Method+" "+regexp.MustCompile(`/[0-9]+/|UPID.*`).ReplaceAllString(r.Path, "/N/")]++
		}
		for k, v := range by {
			fmt.Println(v, k)
		}
	}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s\t%d", what, count[what]))
	}
	return out
}

// critical walks back from the step that ended last, each time to the need that
// ended last.
func critical(report *converge.Report) (chain []string) {
	by := map[string]converge.StepReport{}
	last := report.Steps[0]
	for _, s := range report.Steps {
		by[s.Step] = s
		if s.Ended.After(last.Ended) {
			last = s
		}
	}
	for s := last; ; {
		chain = append([]string{fmt.Sprintf("%s %s", s.Step, s.Ended.Sub(s.Started).Round(100*time.Millisecond))}, chain...)
		if len(s.Needs) == 0 {
			return chain
		}
		next := by[s.Needs[0]]
		for _, n := range s.Needs[1:] {
			if by[n].Ended.After(next.Ended) {
				next = by[n]
			}
		}
		s = next
	}
}

// wall is the time of the real world, also inside of a bubble.
func wall() time.Duration {
	var ts timespec
	ts.now()
	return ts.since()
}
