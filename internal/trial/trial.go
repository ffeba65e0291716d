// Package trial goes the whole way of a cluster on a Proxmox VE that nobody has tried
// yet: a look at the hosts, a plan, the first run, a second that has nothing to do, the
// changes that clusters see, and down to nothing. After every step it plans, and it
// records what each took, what it asked of Proxmox, and what the plan said.
//
// It uses what package cluster does and nothing beside it, so what a trial has seen is
// what the commands do. What the steps change they change in memory: nobody's file is
// touched.
package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/spec"
)

// World is where a trial takes place.
type World interface {
	// Open binds a cluster to the world as a command of its own does, which remembers
	// nothing of the one before. The function ends it.
	Open(ctx context.Context, want *spec.Spec) (c *cluster.Cluster, end func(), err error)
	// Run runs a graph and tells listen what happens; Look plans one. Both may show it.
	Run(ctx context.Context, g *converge.Graph, listen func(converge.Event)) (*converge.Report, error)
	Look(ctx context.Context, g *converge.Graph) (*converge.Plan, error)
	// Requests counts, by method, what Proxmox has been asked so far.
	Requests() map[string]int
	// Say tells the person what comes next.
	Say(format string, args ...any)
}

// Trial is the way that lies before a cluster.
type Trial struct {
	spec  *spec.Spec
	first int // index of the step to begin with
	node  int // index in want.Nodes of the agent that is changed and then removed
}

// Word is what a cluster's name has to have in it, between hyphens, before a trial
// makes and destroys its machines.
const Word = "trial"

// New sees that a file can be tried. from names the step to begin with; empty is the
// first. What the steps before it changed in the file stays changed.
func New(want *spec.Spec, from string) (*Trial, error) {
	t := &Trial{spec: want, node: -1}
	if from != "" {
		if t.first = slices.IndexFunc(steps(), func(s step) bool { return s.name == from }); t.first < 0 {
			return nil, fmt.Errorf("step %q does not exist: write one of %s", from, strings.Join(Steps(), ", "))
		}
	}
	if !slices.Contains(strings.Split(want.Name, "-"), Word) {
		return nil, fmt.Errorf("%s: a trial destroys the cluster's machines at its end, so the cluster has to be called one: "+
			"write name: %s-%s in a file for that, with addresses of its own", want.Name, want.Name, Word)
	}
	if !want.HasProxmox() {
		return nil, cluster.ErrNoProxmox
	}
	for i, n := range want.Nodes {
		switch {
		case n.External || n.Adopt:
			return nil, fmt.Errorf("node %s was not made by homelab, and a trial destroys the nodes in its file: remove it from the file", n.Name)
		case n.Role == spec.Agent && len(n.NUMANodes) == 0 && n.Hugepages == "":
			t.node = i
		}
	}
	if t.node < 0 {
		return nil, errors.New("a trial changes an agent's memory, gives it a disk and removes it, and the file has none for that: " +
			"add one without numaNodes and hugepages")
	}
	return t, nil
}

// Steps are the names of all steps, in their order.
func Steps() []string {
	var names []string
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return names
}

// Left are the steps that this trial takes, as name and what it is.
func (t *Trial) Left() [][2]string {
	var out [][2]string
	for _, s := range steps()[t.first:] {
		out = append(out, [2]string{s.name, s.what(t.spec.Nodes[t.node].Name)})
	}
	return out
}

// Run takes the steps one after the other and stops at the first that fails. The record
// has all that were begun, also with an error, which is the failed step's.
func (t *Trial) Run(ctx context.Context, w World) (*Record, error) {
	rec := &Record{Cluster: t.spec.Name, Began: time.Now()}
	want := t.spec
	for i, s := range steps() {
		if s.change != nil {
			want = t.changed(want, s.change)
		}
		if i < t.first {
			continue
		}
		w.Say("\n%s: %s", s.name, s.what(t.spec.Nodes[t.node].Name))
		one := &Step{Name: s.name, What: s.what(t.spec.Nodes[t.node].Name)}
		rec.Steps = append(rec.Steps, one)
		err := t.take(ctx, w, s, want, rec, one)
		rec.Ended = time.Now()
		if err != nil {
			one.Failed = err.Error()
			return rec, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return rec, nil
}

// take takes one step and plans after it.
func (t *Trial) take(ctx context.Context, w World, s step, want *spec.Spec, rec *Record, one *Step) error {
	measure := func(took *Seconds, asked *map[string]int, do func() error) error {
		begun, before := time.Now(), w.Requests()
		err := do()
		*took, *asked = Seconds(time.Since(begun)), since(before, w.Requests())
		return err
	}
	err := measure(&one.Took, &one.Requests, func() error {
		return with(ctx, w, want, func(c *cluster.Cluster) (err error) {
			rec.met(c)
			if s.do != nil {
				one.Said, err = s.do(ctx, w, c)
			}
			return err
		})
	})
	if err != nil {
		return told(ctx, err)
	}
	return told(ctx, measure(&one.PlanTook, &one.PlanRequests, func() error { return look(ctx, w, s, want, one) }))
}

// What a plan cannot see, it does not wait for; here it may be a Kubernetes that starts
// again on a slow host. seeTime, times the file's patience, is how long it is looked at
// again, every seePoll.
const (
	seeTime = time.Minute
	seePoll = 5 * time.Second
)

// look plans after a step, and judges the plan.
func look(ctx context.Context, w World, s step, want *spec.Spec, one *Step) error {
	end := time.Now().Add(seeTime * time.Duration(max(1, want.Patience)))
	for looks := 1; ; looks++ {
		plan, err := planned(ctx, w, s, want)
		if err != nil {
			return err
		}
		one.Plan = planWords(plan)
		if looks > 1 {
			one.Plan += fmt.Sprintf(", seen at look %d", looks)
		}
		unseen := plan.Err()
		if unseen == nil {
			return s.expects(plan)
		}
		if time.Now().After(end) {
			return fmt.Errorf("planning after it: %w", unseen)
		}
		w.Say("checking again in %s what could not be seen", seePoll)
		if wait.Pause(ctx, seePoll) != nil {
			return unseen
		}
	}
}

func planned(ctx context.Context, w World, s step, want *spec.Spec) (plan *converge.Plan, err error) {
	err = with(ctx, w, want, func(c *cluster.Cluster) error {
		graph, err := s.graph(ctx, c)
		if err != nil {
			return err
		}
		plan, err = w.Look(ctx, graph)
		return err
	})
	return plan, err
}

// with opens the world for one thing.
func with(ctx context.Context, w World, want *spec.Spec, do func(*cluster.Cluster) error) error {
	c, end, err := w.Open(ctx, want)
	if err != nil {
		return err
	}
	defer end()
	return do(c)
}

// told puts what ended a run from outside before what that broke.
func told(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("timed out (-timeout): %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// changed is a copy of a file with a step's change in it.
func (t *Trial) changed(want *spec.Spec, change func(nodes []spec.Node, i int) []spec.Node) *spec.Spec {
	out := *want
	out.Nodes = change(slices.Clone(want.Nodes), t.node)
	return &out
}

// since is what was counted after before.
func since(before, now map[string]int) map[string]int {
	out := maps.Clone(now)
	for method, n := range before {
		if out[method] -= n; out[method] == 0 {
			delete(out, method)
		}
	}
	return out
}
