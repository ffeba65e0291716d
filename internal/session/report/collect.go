package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/proxmox"
)

// collector fills a page.
type collector struct {
	*Page
	session *session.Session
	plan    *converge.Plan
	report  *converge.Report
	hub     []jupyterhub.Result

	steps map[string]*steps // by machine, host or part
	parts map[string]string // the part of a storage class
}

// steps is the state of what belongs to a machine, a host or a part.
type steps struct {
	good, waiting, bad int
	words              string // about the first that is not good
}

// collect reads all that the page shows. What cannot be read is a problem of the page.
func (c *collector) collect(ctx context.Context, acted map[string]converge.Diff) {
	c.steps, c.parts = map[string]*steps{}, map[string]string{}
	if c.session.Cluster != nil {
		for _, p := range c.session.Cluster.Parts() {
			for _, class := range p.Classes {
				c.parts[class] = p.Name
			}
		}
	}
	c.facts()
	switch {
	case c.report != nil:
		c.addRun(acted)
	case c.plan != nil:
		c.addPlan()
	}
	if c.session.Cluster == nil { // it could not be reached
		return
	}
	inv := c.session.Inventory(ctx, c.planIfLast())
	gpus := c.cards(ctx)
	c.hosts(ctx, inv, gpus)
	c.pools(inv)
	c.platform()
	c.warnings()
	c.results()
	c.profiles()
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		switch {
		case a.Warning == b.Warning:
			return 0
		case a.Warning:
			return 1
		}
		return -1
	})
}

// planIfLast is the plan if nothing ran after it.
func (c *collector) planIfLast() *converge.Plan {
	if c.report != nil {
		return nil
	}
	return c.plan
}

func (c *collector) problem(where, text string, warning bool) {
	what, cure := split(text)
	for i := range c.Problems { // one for all that have the same
		if p := &c.Problems[i]; p.What == what && p.Cure == cure && p.Warning == warning {
			if !slices.Contains(strings.Split(p.Where, ", "), where) {
				p.Where += ", " + where
			}
			return
		}
	}
	c.Problems = append(c.Problems, Problem{Where: where, What: what, Cure: cure, Warning: warning})
}

// split takes the cure out of an error: its lines with a margin.
func split(text string) (what, cure string) {
	var whats, cures []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); strings.HasPrefix(line, "  ") {
			cures = append(cures, strings.TrimSpace(line))
		} else {
			whats = append(whats, line)
		}
	}
	return strings.Join(whats, "\n"), strings.Join(cures, "\n")
}

func (c *collector) facts() {
	s := c.session.Spec
	c.Facts = append(c.Facts, Fact{Label: "Kubernetes", Value: s.K3s.Version})
	if api := s.APIAddress(); api.IsValid() {
		c.Facts = append(c.Facts, Fact{Label: "API", Value: api.String()})
	}
	if len(s.GPUNodes()) > 0 {
		c.Facts = append(c.Facts, Fact{Label: "GPU driver", Value: s.NVIDIA.Branch + ", " + s.NVIDIA.DriverMode})
	}
	if s.Proxmox.Endpoint != "" {
		c.Facts = append(c.Facts, Fact{Label: "Proxmox VE", Value: s.Proxmox.Endpoint})
	}
	c.Facts = append(c.Facts, Fact{Label: "File", Value: s.File})
}

// addRun shows a run.
func (c *collector) addRun(acted map[string]converge.Diff) {
	run := &Run{}
	for _, s := range c.report.Steps {
		lane, what := console.Owner(s.Step)
		step := Step{Name: s.Step, Lane: lane, What: what, End: string(s.Kind), Needs: s.Needs, Started: s.Started, Ended: s.Ended}
		st := c.stepsOf(s.Step)
		switch s.Kind {
		case converge.FailedStep:
			step.Error = s.Err.Error()
			st.bad++
			st.words = what + " failed"
			c.problem(lane, what+": "+step.Error, false)
		case converge.Skipped, converge.Cancelled:
			st.waiting++
			st.words = cmp.Or(st.words, what+" has not run")
		default:
			st.good++
		}
		run.Steps = append(run.Steps, step)
		if !s.Started.IsZero() && (run.Started.IsZero() || s.Started.Before(run.Started)) {
			run.Started = s.Started
		}
		if s.Ended.After(run.Ended) {
			run.Ended = s.Ended
		}
		if diff, ok := acted[s.Step]; ok && (s.Kind == converge.Changed || s.Kind == converge.FailedStep) {
			c.change(lane, what, diff)
		}
	}
	c.Run = run
}

// addPlan shows what differs.
func (c *collector) addPlan() {
	differ := 0
	for _, it := range c.plan.Items {
		where, what := console.Owner(it.Step)
		st := c.stepsOf(it.Step)
		switch it.Verdict {
		case converge.Clean:
			st.good++
		case converge.Deferred:
			st.waiting++
			st.words = cmp.Or(st.words, "waits: "+it.Reason)
		case converge.Failed:
			st.bad++
			st.words = what + " could not be checked"
			c.problem(where, what+": "+it.Err.Error(), false)
		default:
			differ++
			st.bad++
			st.words = what + " differs"
			c.change(where, what, it.Diff)
		}
	}
	if differ > 0 {
		const text = "%d of %d steps differ from the file; see what differs below\n  homelab cluster:up closes the differences"
		c.problem(c.Cluster, fmt.Sprintf(text, differ, len(c.plan.Items)), false)
	}
}

// stepsOf is the state of a step's owner. Steps of a storage class belong to its part.
func (c *collector) stepsOf(step string) *steps {
	name, _ := console.Owner(step)
	name = cmp.Or(c.parts[name], name)
	if c.steps[name] == nil {
		c.steps[name] = &steps{}
	}
	return c.steps[name]
}

func (c *collector) change(where, what string, diff converge.Diff) {
	ch := Change{Where: where, What: what}
	for _, f := range diff {
		field := Field{Path: f.Path, Before: f.Have, After: f.Want, Note: f.Note}
		if f.Effect == converge.Restart || f.Effect == converge.Replace {
			field.Note = strings.TrimPrefix(field.Note+"; "+f.Effect.String(), "; ")
		}
		if f.Effect == converge.Create && f.Have == "" { // why it is as it is, is the plan's to explain
			field.Note = ""
		}
		if f.Want == "" {
			field.After = "(none)"
		}
		ch.Fields = append(ch.Fields, field)
	}
	c.Changes = append(c.Changes, ch)
}

// warnings adds what works for now.
func (c *collector) warnings() {
	hosts, _ := c.session.Cluster.HostWarnings()
	for _, w := range hosts {
		c.problem(cmp.Or(w.Subject, "hosts"), w.String(), true)
	}
	if hub, ok := c.session.Cluster.Hub(); ok {
		for _, w := range hub.Warnings() {
			c.problem("hub", w, true)
		}
	}
	for _, w := range c.session.Spec.Warnings {
		c.problem(fmt.Sprintf("%s:%d", w.File, w.Line), w.What+"\n  "+w.Cure, true)
	}
}

// cards lists the GPUs of the hosts.
func (c *collector) cards(ctx context.Context) []cluster.GPUInfo {
	if c.session.Cluster.Proxmox == nil {
		return nil
	}
	gpus, err := c.session.Cluster.GPUs(ctx)
	if err != nil {
		c.problem("GPUs", "the cards of the hosts cannot be listed: "+err.Error(), false)
	}
	for _, g := range gpus {
		if g.State == cluster.GPUConflict {
			c.problem(g.Host, g.Problem, false)
		}
	}
	return gpus
}

// platform shows the parts of the platform.
func (c *collector) platform() {
	for _, p := range c.session.Cluster.Parts() {
		chart, version, _ := strings.Cut(p.Chart, " ")
		part := Part{Name: p.Name, Chart: chart, Version: version, Via: p.Via, State: Off, Words: "not checked"}
		if st := c.steps[p.Name]; st != nil {
			part.State, part.Words = st.state("ready")
		}
		c.Parts = append(c.Parts, part)
	}
	if slices.ContainsFunc(c.Parts, func(p Part) bool { return p.State != Off }) || c.plan != nil {
		for _, e := range c.session.Cluster.Endpoints() {
			c.Links = append(c.Links, Link{Title: e.Title, URL: e.URL})
		}
		return
	}
	c.Parts = nil // this command does not look at them
}

func (s *steps) state(good string) (State, string) {
	switch {
	case s.bad > 0:
		return Bad, s.words
	case s.waiting > 0:
		return Waiting, s.words
	}
	return Good, good
}

// profiles shows how many servers of each of the hub's profiles fit.
func (c *collector) profiles() {
	fit := platform.Fit(c.session.Spec)
	c.Fit.Pools = fit.Pools
	for _, row := range fit.Rows {
		r := FitRow{Profile: row.Profile, Total: row.Total, Limit: row.Limit}
		for _, cell := range row.Cells {
			r.Cells = append(r.Cells, FitCell{Count: cell.Count, Why: cell.Reason})
		}
		r.Check = c.server(row.Profile)
		c.Fit.Rows = append(c.Fit.Rows, r)
	}
	for _, a := range fit.Apart {
		c.Fit.Notes = append(c.Fit.Notes, fmt.Sprintf("Homes stay on one node: %s.", a))
	}
}

// server is what a server of a profile did.
func (c *collector) server(profile string) *Check {
	i := slices.IndexFunc(c.hub, func(r jupyterhub.Result) bool { return r.Profile == profile })
	if i < 0 {
		return nil
	}
	r := c.hub[i]
	if r.Err != nil {
		text := strings.TrimPrefix(r.Err.Error(), "profile "+profile+": ")
		c.problem("profile "+profile, text, false)
		return &Check{Name: "failed", State: Bad, Detail: text}
	}
	words := fmt.Sprintf("ready after %s, and computed", r.Ready.Round(time.Second))
	if n := len(r.Saw.GPUs); n > 0 {
		words += fmt.Sprintf(" on %d × %s", n, r.Saw.GPUs[0].Name)
	}
	return &Check{Name: words, State: Good}
}

// pools sums up the machines.
func (c *collector) pools(inv *cluster.Inventory) {
	index := map[string]int{}
	cores, memory, models := map[int][]int{}, map[int][]proxmox.Size{}, map[int]map[string]int{}
	for _, m := range inv.Machines {
		n, ok := c.session.Spec.Node(m.Name)
		if !ok {
			continue
		}
		name := cmp.Or(n.Pool, n.Name)
		i, ok := index[name]
		if !ok {
			i = len(c.Pools)
			index[name] = i
			c.Pools = append(c.Pools, Pool{Name: name, Role: string(n.Role), Unit: "GPUs", Sharing: sharing(n.GPUs), Taints: taints(n)})
			models[i] = map[string]int{}
		}
		p := &c.Pools[i]
		p.Nodes++
		if m.Ready {
			p.Ready++
		}
		p.Used += m.GPUs.Used
		p.GPUs += m.GPUs.Total
		p.Unit = cmp.Or(m.GPUs.Unit, p.Unit)
		cores[i], memory[i] = append(cores[i], n.Cores), append(memory[i], n.Memory)
		models[i][cmp.Or(c.model(m.Name), n.GPUs.Model)] += offer.GPUsOf(n).Cards
	}
	for i := range c.Pools {
		c.Pools[i].Cores, c.Pools[i].Memory = span(cores[i], func(n int) string { return fmt.Sprint(n) }), span(memory[i], proxmox.Size.String)
		c.Pools[i].Model = list(models[i])
	}
}

// model is that of a machine's first GPU, as its host reports it.
func (c *collector) model(machine string) string {
	for _, h := range c.Hosts {
		for _, m := range h.Machines {
			if m.Name == machine && len(m.GPUs) > 0 {
				return m.GPUs[0].Model
			}
		}
	}
	return ""
}

func list(models map[string]int) string {
	var out []string
	for model, n := range models {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d × %s", n, cmp.Or(model, "GPU")))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// span is a value, or the least and the greatest; none if it is not known.
func span[T cmp.Ordered](values []T, words func(T) string) string {
	least, most := slices.Min(values), slices.Max(values)
	var none T
	switch {
	case most == none:
		return ""
	case least == most:
		return words(most)
	}
	return words(least) + "–" + words(most)
}

func sharing(g spec.GPURequest) string {
	switch s := g.Sharing; {
	case g.Count == 0 || !s.Shared():
		return ""
	case s.Replicas > 0:
		return fmt.Sprintf("%s, %d each", s.Strategy, s.Replicas)
	default:
		return s.Strategy
	}
}

func taints(n spec.Node) string {
	var out []string
	for _, t := range n.Taints {
		out = append(out, t.String())
	}
	return strings.Join(out, ", ")
}
