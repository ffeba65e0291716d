package report

import (
	"maps"
	"sync"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/jupyterhub"
)

// recorder keeps what a command saw and did. It is the console's Recorder.
type recorder struct {
	plan   *converge.Plan
	report *converge.Report
	hub    []jupyterhub.Result

	mu    sync.Mutex
	acted map[string]converge.Diff // the first difference that each step closed
}

// Listen keeps what a step is about to change.
func (r *recorder) Listen(e converge.Event) {
	if e.Kind != converge.Acting {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.acted[e.Step]; again {
		return
	}
	if r.acted == nil {
		r.acted = map[string]converge.Diff{}
	}
	r.acted[e.Step] = e.Diff
}

// Reset forgets the events of a run that starts over.
func (r *recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acted = nil
}

// Close does nothing.
func (r *recorder) Close() {}

// RecordPlan keeps a plan.
func (r *recorder) RecordPlan(p *converge.Plan) { r.plan = p }

// RecordRun keeps the report of a run.
func (r *recorder) RecordRun(report *converge.Report) { r.report = report }

// StoreResults keeps what servers of the hub's profiles did.
func (r *recorder) StoreResults(results []jupyterhub.Result) { r.hub = results }

func (r *recorder) diffs() map[string]converge.Diff {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.acted)
}
