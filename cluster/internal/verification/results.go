package verification

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// resultParts are the keys of a node's results.
func (v *Verification) resultParts(n spec.Node) []string {
	if v.Burn > 0 {
		return []string{n.Name}
	}
	var out []string
	for _, p := range v.parts[n.Name] {
		out = append(out, p.id())
	}
	return out
}

func (v *Verification) record(part string, results []check.VerifyResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.results[part] = results
}

// Results are the results of all GPUs that have reported, in the order of the file.
func (v *Verification) Results() []Result {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []Result
	for _, n := range v.Spec.GPUNodes() {
		for _, p := range v.resultParts(n) {
			for _, r := range v.results[p] {
				out = append(out, Result{Node: n.Name, VerifyResult: r, Note: note(n)})
			}
		}
	}
	return out
}

// Clean removes the Jobs of this run. Kubernetes deletes the Jobs of other runs after an
// hour.
func (v *Verification) Clean(ctx context.Context) error {
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if v.benches != nil {
		errs = append(errs, v.benches.Clean(ctx))
	}
	for _, n := range v.Spec.GPUNodes() {
		for _, p := range v.parts[n.Name] {
			errs = append(errs, client.Delete(ctx, v.objects(p)...))
		}
		for _, objects := range [][]runtime.Object{v.overRequestObjects(n), v.reloadObjects(n)} {
			errs = append(errs, client.Delete(ctx, objects...))
		}
	}
	return errors.Join(errs...)
}

// note records the checks of a step.
func (v *Verification) note(step string, checks ...check.Check) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checks[step] = checks
}

// skipped reports whether a step noted that it could not try.
func (v *Verification) skipped(step string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.checks[step], func(c check.Check) bool { return c.Verdict == check.Skipped })
}

// Checks are all checks so far, by node and GPU: those of the level, whether each GPU computes,
// and one that failed for each node that did not answer.
func (v *Verification) Checks() []check.Check {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []check.Check
	for _, n := range v.Spec.GPUNodes() {
		answered := v.Burn > 0 // its own checks say how each GPU computed
		for _, p := range v.resultParts(n) {
			for _, r := range v.results[p] {
				answered = true
				c := check.Check{Node: n.Name, GPU: r.Index, UUID: r.UUID, Name: check.Compute, Verdict: check.Passed, Detail: note(n)}
				if !r.Passed {
					c.Verdict, c.Detail = check.Failed, r.Detail
				}
				out = append(out, c)
			}
		}
		for _, p := range v.parts[n.Name] {
			answered, out = answered || p.count == 0, append(out, v.checks["verify/"+p.id()]...)
		}
		if !answered {
			out = append(out, check.Check{Node: n.Name, GPU: check.WholeNode, Name: check.Compute, Verdict: check.Failed, Detail: "no GPU of this node reported a result"})
		}
		for _, step := range []string{"facts/", "refuse/", "keep/", "volumes/"} {
			out = append(out, v.checks[step+n.Name]...)
		}
	}
	if v.benches != nil {
		out = append(out, v.benches.Checks()...)
	}
	return out
}
