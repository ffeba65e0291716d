package cluster_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var (
	campaignRuns  = flag.String("campaign", "", "main: every fault at every request and connection of one-gpu, the death of who asks at those of eight-a100 that are not the same look once more, every fault at what changes something in Kubernetes of notebooks, and pairs; all: every fault at everything; sample, as without it: some of all")
	campaignRepro = flag.String("campaign.repro", "", "one run of the campaign, as it prints it: site/fault@request[+fault@request]")
	campaignSeed  = flag.Uint64("campaign.seed", 1, "for the runs with two faults, which are drawn by chance")
	campaignEvery = flag.Int("campaign.every", 997, "a sample has one run of so many; best a prime, so that each fault and each request gets its turn")
	campaignOnly  = flag.String("campaign.only", "", "how the names of runs begin, as in eight-a100/crash")
	campaignDone  = flag.String("campaign.done", "", "a file of the runs that were survived, a line each: they are not run again, and those of now are added")
	campaignFor   = flag.Duration("campaign.for", 0, "no run begins after so long; 0: all do. With -campaign.done another time goes on from there")
	campaignPairs = flag.Int("campaign.pairs", 2700, "how many runs with two faults, in main and all")
)

// site is a place where the campaign is fought: an example, on hosts that fit it
// and that somebody else uses as well.
type site struct {
	name    string
	of      string // what goes wrong there, as a fault's; any: everything
	spec    *spec.Spec
	model   pvesim.Model
	want    []string // what is there when nothing went wrong
	targets []target // all that goes out then, each by its own name
}

// neighbour is the somebody else.
var neighbour = pvesim.Token{ID: "neighbour@pve!own", Secret: "77777777-7777-7777-7777-777777777777"}

// anything goes wrong where a site is of this.
const anything = "any"

// step is how many bytes of a connection there are from one to the next at which
// something goes wrong.
func newSite(t *testing.T, name, yaml string, model pvesim.Model, of string, step int) *site {
	t.Helper()
	node := model.Hosts[0].Name
	model.Users = append(slices.Clone(model.Users), pvesim.User{ID: "neighbour@pve"})
	model.Tokens = append(slices.Clone(model.Tokens), neighbour)
	model.ACLs = append(slices.Clone(model.ACLs), pvesim.ACL{Path: "/", Who: "neighbour@pve", Role: "Administrator"})
	model.VMs = append(slices.Clone(model.VMs),
		pvesim.VM{ID: 101, Node: node, Name: "neighbour-db", Running: true, Config: map[string]string{"memory": "2048", "tags": "homelab-" + name + "-2"}},
		pvesim.VM{ID: 103, Node: node, Name: "neighbour-web", Config: map[string]string{"memory": "1024", "onboot": "1"}})
	s := &site{name: name, of: of, spec: parse(t, yaml), model: model}
	inWorld(t, s.model, func(t *testing.T, w *world) {
		b := newBattle(w, s.spec, func() {})
		names, asked := &namer{}, []target(nil)
		b.api.note = func(to target) { asked = append(asked, to) }
		rule := w.sim.Fail(pvesim.Rule{Times: -1, When: func(r pvesim.Request) bool {
			s.targets = append(s.targets, names.name(r))
			return false
		}})
		w.up(t, s.spec)
		rule.Remove()
		b.over()
		s.targets = slices.Concat(s.targets[1:], asked, b.wires.targets(step)) // without that of Dial
		s.targets = slices.DeleteFunc(s.targets, func(to target) bool { return of != anything && to.of != of })
		s.want = w.left(t)
	})
	return s
}

// attempt is one run of the campaign.
type attempt struct {
	site   *site
	faults []aimed
}

// aimed is a fault at a request.
type aimed struct {
	fault fault
	at    target
}

func (a attempt) String() string {
	var parts []string
	for _, f := range a.faults {
		parts = append(parts, f.fault.name+"@"+f.at.String())
	}
	return a.site.name + "/" + strings.Join(parts, "+")
}

// outcome is how it went.
type outcome struct {
	met      bool // the fault was met, the request was made
	failed   bool // the run that met it ended with an error
	requests int
}

// run meets the faults in one run, and expects the next one, which meets none, to
// make of what is left the world that would be there anyway.
func (a attempt) run(t *testing.T) (o outcome) {
	inWorld(t, a.site.model, func(t *testing.T, w *world) {
		ctx, kill := context.WithTimeout(t.Context(), 6*time.Hour)
		defer kill()
		b := newBattle(w, a.site.spec, kill)
		c := w.clusterOver(t, a.site.spec, b)
		for _, f := range a.faults {
			b.arm(f)
		}
		_, err := c.Up().Run(ctx, w.listen(t))
		c.Close()
		o.failed = err != nil
		if !b.dead.Load() {
			require.NoError(t, ctx.Err(), "it must give up by itself: %v", err)
		}
		b.over()
		o.met = b.met.Load()
		time.Sleep(processStart)
		a.survives(t, w)
		o.requests = len(w.sim.Requests())
	})
	return o
}

// survives is what is expected of the run after.
func (a attempt) survives(t *testing.T, w *world) {
	w.up(t, a.site.spec)
	mine := slices.DeleteFunc(w.left(t), func(line string) bool {
		// A create whose worker was killed leaves a VM without a name or tag, under a
		// lock that root alone can take away. It is told apart by having no name.
		return strings.Contains(line, intruder) || strings.HasPrefix(line, "vm  ")
	})
	for _, line := range notIn(a.site.want, mine) {
		t.Errorf("it should be there, and is not: %.900s", line)
	}
	for _, line := range notIn(mine, a.site.want) {
		t.Errorf("it should not be there: %.900s", line)
	}
	assert.Len(t, w.kube.Clusters(), 1, "one control plane, not two")
	nodes := w.nodes(t)
	assert.Len(t, nodes, len(a.site.spec.Nodes))
	for _, n := range a.site.spec.Nodes {
		assert.True(t, nodes[n.Name].Ready, "%s", n.Name)
		assert.EqualValues(t, n.GPUs.Count, nodes[n.Name].Count("nvidia.com/gpu"), "%s", n.Name)
	}
}

// attempts are all runs with one fault, and some with two.
func (s *site) attempts() []attempt {
	var out []attempt
	for _, f := range faults() {
		for _, to := range s.targets {
			if f.applies(to) {
				out = append(out, attempt{s, []aimed{{f, to}}})
			}
		}
	}
	return out
}

// pairs draws runs with two faults.
func pairs(from []attempt, n int, seed uint64) []attempt {
	dice := rand.New(rand.NewPCG(seed, 0))
	var out []attempt
	for len(from) > 1 && len(out) < n {
		a, b := from[dice.IntN(len(from))], from[dice.IntN(len(from))]
		if a.site == b.site && a.String() != b.String() {
			out = append(out, attempt{a.site, []aimed{a.faults[0], b.faults[0]}})
		}
	}
	return out
}

func campaignSites(t *testing.T) []*site {
	t.Helper()
	return []*site{
		newSite(t, "one-gpu", lab(example(t, "one-gpu")), pvesim.OneGPU(), anything, 509),
		newSite(t, "eight-a100", example(t, "eight-a100"), pvesim.EightA100(), anything, 4093),
		newSite(t, "notebooks", withPlatform(t, "one-gpu", smallPlatform), pvesim.OneGPU(), ofKubernetes, 0),
	}
}

// TestCampaign meets faults at requests, connections and answers of the examples, one
// run each, and some pairs of them. It prints what it did, and of what was not survived
// the shortest line that shows it again.
func TestCampaign(t *testing.T) {
	sites := campaignSites(t)
	all := chosen(t, sites)
	diary := newDiary(t, len(all))
	defer diary.close()
	all = slices.DeleteFunc(all, diary.has)
	begun := wall()
	results := make([]outcome, len(all))
	lost := make([]bool, len(all))
	t.Run("runs", func(t *testing.T) {
		for i, a := range all {
			t.Run(a.String(), func(t *testing.T) {
				t.Parallel()
				if *campaignFor > 0 && wall()-begun > *campaignFor {
					return
				}
				defer func() {
					lost[i] = t.Failed()
					diary.add(a, !lost[i])
				}()
				results[i] = a.run(t)
			})
		}
	})
	ran := func(i int) bool { return lost[i] || results[i].requests > 0 }
	for i, a := range all {
		if lost[i] {
			t.Logf("not survived; to see it again:\n  homelab sim:faults -repro='%s'", a.shrunk(t))
		}
	}
	table(t, all, results, lost, ran, wall()-begun)
}

// chosen are the runs that the flags ask for.
func chosen(t *testing.T, sites []*site) []attempt {
	if *campaignRepro != "" {
		a, err := parseAttempt(sites, *campaignRepro)
		require.NoError(t, err)
		return []attempt{a}
	}
	var all []attempt
	for _, s := range sites {
		all = append(all, s.attempts()...)
	}
	all = slices.DeleteFunc(all, func(a attempt) bool { return !strings.HasPrefix(a.String(), *campaignOnly) })
	switch *campaignRuns {
	case "all":
		return append(all, pairs(all, *campaignPairs, *campaignSeed)...)
	case "main":
		all = slices.DeleteFunc(all, func(a attempt) bool {
			f := a.faults[0]
			return a.site == sites[1] && (!f.fault.kills || f.at.again()) || a.site == sites[2] && !f.at.mutating()
		})
		small := slices.DeleteFunc(slices.Clone(all), func(a attempt) bool { return a.site != sites[0] })
		return append(all, pairs(small, *campaignPairs, *campaignSeed)...)
	}
	sample, mine := []attempt{}, share.Start(t, "sampled lives with a fault")
	for i := int(*campaignSeed) % *campaignEvery; i < len(all); i += *campaignEvery {
		if mine.Next() {
			sample = append(sample, all[i])
		}
	}
	return sample
}

// shrunk leaves out the faults without which it is not survived either.
func (a attempt) shrunk(t *testing.T) attempt {
	if len(a.faults) < 2 {
		return a
	}
	for i := range a.faults {
		less := attempt{a.site, slices.Delete(slices.Clone(a.faults), i, i+1)}
		if !t.Run("less: "+less.String(), func(t *testing.T) { less.run(t) }) {
			return less
		}
	}
	return a
}

func parseAttempt(sites []*site, text string) (attempt, error) {
	name, rest, _ := strings.Cut(text, "/")
	i := slices.IndexFunc(sites, func(s *site) bool { return s.name == name })
	if i < 0 {
		return attempt{}, fmt.Errorf("%q begins with none of the sites", text)
	}
	a := attempt{site: sites[i]}
	for part := range strings.SplitSeq(rest, "+") {
		name, at, _ := strings.Cut(part, "@")
		f := slices.IndexFunc(faults(), func(f fault) bool { return f.name == name })
		to := slices.IndexFunc(a.site.targets, func(to target) bool { return to.String() == at })
		if f < 0 || to < 0 {
			return attempt{}, fmt.Errorf("%q is no fault at a request of %s", part, a.site.name)
		}
		a.faults = append(a.faults, aimed{faults()[f], a.site.targets[to]})
	}
	return a, nil
}

// table prints a line for each site and fault.
func table(t *testing.T, all []attempt, results []outcome, lost []bool, ran func(int) bool, took time.Duration) {
	type row struct{ runs, met, failed, survived, requests int }
	rows, order := map[string]*row{}, []string{}
	total := &row{}
	for i, a := range all {
		if !ran(i) {
			continue
		}
		what := "two faults"
		if len(a.faults) == 1 {
			what = a.faults[0].fault.name
		}
		key := a.site.name + "\t" + what
		if rows[key] == nil {
			rows[key] = &row{}
			order = append(order, key)
		}
		for _, r := range []*row{rows[key], total} {
			r.runs++
			r.met += count(results[i].met)
			r.failed += count(results[i].failed)
			r.survived += count(!lost[i])
			r.requests += results[i].requests
		}
	}
	out := io.Writer(os.Stdout)
	if *campaignRuns == "" {
		out = t.Output()
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "site\tfault\truns\tmet\tran into it\tsurvived\trequests\t")
	for _, k := range append(order, "") {
		r := cmp.Or(rows[k], total)
		if k == "" {
			k = "all\t"
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t\n", k, r.runs, r.met, r.failed, r.survived, r.requests)
	}
	_ = tw.Flush()
	fmt.Fprintf(out, "in %s\n", took.Round(time.Second))
}
