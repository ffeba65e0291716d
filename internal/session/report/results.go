package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/proxmox"
)

// results shows the latest results of gpu:verify with their history.
func (c *collector) results() {
	all, bad, err := history.Read(c.session.History(), c.session.Spec.IsLab())
	if err != nil {
		c.problem("gpu:verify", err.Error(), true)
		return
	}
	if bad > 0 {
		c.problem("gpu:verify", fmt.Sprintf("%d lines of %s are not results, and are left out", bad, c.session.History()), true)
	}
	var worse []Problem
	for _, r := range history.Latest(all) {
		if c.isOfCluster(r.Node) {
			worse = append(worse, c.result(all, r)...)
		}
	}
	const most = 12 // a driver can slow all cards
	if n := len(worse) - most; n > 0 {
		worse = append(worse[:most], Problem{Where: "gpu:verify", What: fmt.Sprintf("%d more results are worse than before; see GPU results", n)})
	}
	for _, w := range worse {
		c.problem(w.Where, w.What, true)
	}
}

// isOfCluster reports whether a machine is of the cluster; a result may be of several.
func (c *collector) isOfCluster(names string) bool {
	return slices.ContainsFunc(strings.Split(names, ", "), func(name string) bool {
		_, ok := c.session.Spec.Node(name)
		return ok
	})
}

// result shows one result, and what is wrong about it. It returns what is only worse than before.
func (c *collector) result(all []history.Record, r history.Record) (worse []Problem) {
	x := Result{
		Node: r.Node, Index: r.Index, Level: r.Level, Model: r.Model, Driver: r.Driver, UUID: r.UUID, Passed: r.Passed, Detail: r.Detail, Note: r.Note, Time: r.Time,
	}
	if r.Memory > 0 {
		x.Memory = proxmox.Size(r.Memory).String()
	}
	differs := history.Compare(all, r)
	x.Worse, x.Better = differs.Regressions(), differs.Other
	past := history.RecordsOf(all, r)
	for _, p := range past {
		x.Past = append(x.Past, PastResult{Time: p.Time, Passed: p.Passed})
	}
	x.Trends = trends(past, r.Time, differs)
	where := r.Node
	if r.Index != history.Whole {
		where = fmt.Sprintf("%s, GPU %d", r.Node, r.Index)
	}
	failed := false
	for _, one := range r.Checks {
		state, known := map[string]State{string(check.Passed): Good, string(check.Warning): Waiting, string(check.Failed): Bad}[one.Verdict]
		if !known {
			state = Off
		}
		x.Checks = append(x.Checks, Check{Name: one.Name, State: state, Detail: one.Detail})
		failed = failed || state == Bad
		if (state == Bad || state == Waiting) && !c.isReported(one.Detail) {
			c.problem(where, "gpu:verify: "+one.Name+": "+one.Detail, state == Waiting)
		}
	}
	if !r.Passed && !failed && !c.isReported(r.Detail) { // of a version without checks
		c.problem(where, "gpu:verify failed: "+r.Detail, false)
	}
	for _, w := range x.Worse {
		if r.Passed {
			worse = append(worse, Problem{Where: where, What: "gpu:verify: " + w})
		}
	}
	c.Results = append(c.Results, x)
	return worse
}

// isReported reports whether a step of the run has failed with the same.
func (c *collector) isReported(detail string) bool {
	return slices.ContainsFunc(c.Problems, func(p Problem) bool { return !p.Warning && detail != "" && strings.Contains(p.What, detail) })
}

// trends are what was measured at last, with the values before. A quick run measures nothing:
// then it is of an earlier one.
func trends(past []history.Record, now time.Time, differs history.Difference) (out []Trend) {
	last := len(past) - 1
	for last >= 0 && (len(past[last].Measures) == 0 || past[last].Time.After(now)) {
		last--
	}
	if last < 0 {
		return nil
	}
	for _, m := range past[last].Measures {
		t := Trend{Name: m.Name, Words: m.String(),
			Slower: slices.ContainsFunc(differs.Slower, func(s history.Regression) bool { return s.Measure == m.Name })}
		if !past[last].Time.Equal(now) {
			t.Words += " on " + past[last].Time.Format(time.DateOnly)
		}
		for _, p := range past[:last+1] {
			for _, was := range p.Measures {
				if p.Level == past[last].Level && was.Name == m.Name && was.Unit == m.Unit {
					t.Past = append(t.Past, PastResult{Time: p.Time, Passed: p.Passed, Value: was.Value, Words: was.String()})
				}
			}
		}
		out = append(out, t)
	}
	return out
}
