// Package trial tests a Proxmox VE with the whole life of a small cluster: checks of the
// hosts, a plan, the first run, a second run without changes, typical changes, and the removal
// of everything. After every step it plans, and it records what each took, what it asked of
// Proxmox, and what the plan said.
//
// It uses what package cluster does and nothing beside it, so what a trial has seen is what
// the commands do. The steps change the specification in memory, not the user's file.
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
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// World is the environment of a trial.
type World interface {
	// Open binds a cluster to the world like a separate command, without state from an earlier
	// one. The function closes it.
	Open(ctx context.Context, want *spec.Spec) (c *cluster.Cluster, end func(), err error)
	// Run runs a graph and passes events to listen; Look plans one. Both may display them.
	Run(ctx context.Context, g *converge.Graph, listen func(converge.Event)) (*converge.Report, error)
	Plan(ctx context.Context, g *converge.Graph) (*converge.Plan, error)
	// Requests counts the requests to Proxmox so far, by method.
	Requests() map[string]int
	// Printf tells the person what comes next.
	Printf(format string, args ...any)
}

// Trial is a trial of one cluster.
type Trial struct {
	spec  *spec.Spec
	first int // index of the first step
	node  int // index in want.Nodes of the agent that is changed and then removed
}

// Word must be a word of the cluster's name, between hyphens; otherwise a trial refuses to
// create and destroy its machines.
const Word = "trial"

// New checks that a file is suitable. from names the first step; empty is the very first. The
// changes of earlier steps to the file apply.
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

// RemainingSteps returns the steps of this trial, with names and descriptions.
func (t *Trial) RemainingSteps() [][2]string {
	var out [][2]string
	for _, s := range steps()[t.first:] {
		out = append(out, [2]string{s.name, s.what(t.spec.Nodes[t.node].Name)})
	}
	return out
}

// Run runs the steps one after the other and stops at the first failure. The record has all
// started steps, also after an error, which is the failed step's.
func (t *Trial) Run(ctx context.Context, w World) (*Record, error) {
	rec := &Record{Cluster: t.spec.Name, Began: time.Now()}
	want := t.spec
	for i, s := range steps() {
		if s.change != nil {
			want = t.withChange(want, s.change)
		}
		if i < t.first {
			continue
		}
		w.Printf("\n%s: %s", s.name, s.what(t.spec.Nodes[t.node].Name))
		one := &Step{Name: s.name, What: s.what(t.spec.Nodes[t.node].Name)}
		rec.Steps = append(rec.Steps, one)
		err := t.runStep(ctx, w, s, want, rec, one)
		rec.Ended = time.Now()
		if err != nil {
			one.Failed = err.Error()
			return rec, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return rec, nil
}

// runStep runs one step and plans after it.
func (t *Trial) runStep(ctx context.Context, w World, s step, want *spec.Spec, rec *Record, one *Step) error {
	measure := func(took *Seconds, asked *map[string]int, do func() error) error {
		begun, before := time.Now(), w.Requests()
		err := do()
		*took, *asked = Seconds(time.Since(begun)), countDifference(before, w.Requests())
		return err
	}
	err := measure(&one.Took, &one.Requests, func() error {
		return withCluster(ctx, w, want, func(c *cluster.Cluster) (err error) {
			rec.setProxmox(c)
			if s.do != nil {
				one.Said, err = s.do(ctx, w, c)
			}
			return err
		})
	})
	if err != nil {
		return causeFirst(ctx, err)
	}
	return causeFirst(ctx, measure(&one.PlanTook, &one.PlanRequests, func() error { return checkPlan(ctx, w, s, want, one) }))
}

// A plan does not wait for what it cannot check, such as a Kubernetes that restarts on a slow
// host. seeTime, times the file's patience, is how long the check is retried, every seePoll.
const (
	seeTime = time.Minute
	seePoll = 5 * time.Second
)

// checkPlan plans after a step, and checks the plan.
func checkPlan(ctx context.Context, w World, s step, want *spec.Spec, one *Step) error {
	end := time.Now().Add(seeTime * time.Duration(max(1, want.Patience)))
	for looks := 1; ; looks++ {
		plan, err := buildPlan(ctx, w, s, want)
		if err != nil {
			return err
		}
		one.Plan = planWords(plan)
		if looks > 1 {
			one.Plan += fmt.Sprintf(", at attempt %d", looks)
		}
		unseen := plan.Err()
		if unseen == nil {
			return s.expects(plan)
		}
		if time.Now().After(end) {
			return fmt.Errorf("planning after it: %w", unseen)
		}
		w.Printf("checking again in %s what could not be checked", seePoll)
		if converge.Pause(ctx, seePoll) != nil {
			return unseen
		}
	}
}

func buildPlan(ctx context.Context, w World, s step, want *spec.Spec) (plan *converge.Plan, err error) {
	err = withCluster(ctx, w, want, func(c *cluster.Cluster) error {
		graph, err := s.graph(ctx, c)
		if err != nil {
			return err
		}
		plan, err = w.Plan(ctx, graph)
		return err
	})
	return plan, err
}

// withCluster opens the world for one action.
func withCluster(ctx context.Context, w World, want *spec.Spec, do func(*cluster.Cluster) error) error {
	c, end, err := w.Open(ctx, want)
	if err != nil {
		return err
	}
	defer end()
	return do(c)
}

// causeFirst puts the cause of an interruption before the errors that it caused.
func causeFirst(ctx context.Context, err error) error {
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

// withChange returns a copy of a file with a step's change.
func (t *Trial) withChange(want *spec.Spec, change func(nodes []spec.Node, i int) []spec.Node) *spec.Spec {
	out := *want
	out.Nodes = change(slices.Clone(want.Nodes), t.node)
	return &out
}

// countDifference returns the difference of two counts.
func countDifference(before, now map[string]int) map[string]int {
	out := maps.Clone(now)
	for method, n := range before {
		if out[method] -= n; out[method] == 0 {
			delete(out, method)
		}
	}
	return out
}
