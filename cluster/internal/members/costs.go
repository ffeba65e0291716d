package members

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/kube"
)

// costsOfMember is the cost of another version. Other settings cost nothing: only the member
// restarts, one node after the other, and pods keep running.
func (ms *Members) costsOfMember(n spec.Node) func(context.Context, distribution.Member, converge.Diff) []converge.Cost {
	return func(ctx context.Context, member distribution.Member, _ converge.Diff) []converge.Cost {
		have := member.State()
		if !isOtherVersion(have, ms.Spec.K3s.Version) {
			return nil
		}
		why := have.Outdated
		if why == "" {
			why = fmt.Sprintf("%s %s → %s", program(ms.Distribution), have.Version, ms.Spec.K3s.Version)
		}
		return ms.Upgrades(ctx, why, n)
	}
}

// Upgrades is the cost of an [Turns.Upgrade], or of another version of Kubernetes.
func (ts *Turns) Upgrades(ctx context.Context, why string, n spec.Node) []converge.Cost {
	costs := ts.Stops(ctx, why+ts.gpuTime(n), n.Name)
	for i := range costs {
		costs[i].Users = ts.workEnding(ctx, n)
	}
	return costs
}

// workEnding is whose work ends if a node is upgraded: pods that hold GPUs are waited for, unless the file
// has them evicted. In the node's turn none is left, so one that has come since would end.
func (ts *Turns) workEnding(ctx context.Context, n spec.Node) []converge.Loss {
	return ts.Users(ctx, func(w *workload.Work) []converge.Loss {
		if n.HasGPUs() && !ts.evicts() && !ts.turns.isHeldBy(n.Name) {
			w = w.WithoutGPUs()
		}
		return w.LossesOn(n.Name)
	})
}

// costsOfMarks is the cost of new taints: a NoExecute taint evicts pods that do not tolerate it.
func (ms *Members) costsOfMarks(n spec.Node, marks kube.Marks) func(context.Context, *kube.Node, converge.Diff) []converge.Cost {
	return func(ctx context.Context, have *kube.Node, _ converge.Diff) []converge.Cost {
		var out []converge.Cost
		for _, t := range marks.Taints {
			if have == nil || t.Effect != string(corev1.TaintEffectNoExecute) || slices.Contains(have.Taints, t) {
				continue
			}
			taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffectNoExecute}
			if users := ms.Users(ctx, func(w *workload.Work) []converge.Loss { return w.Untolerant(n.Name, taint) }); len(users) > 0 {
				out = append(out, converge.Cost{
					Machine: "work on " + n.Name, Kind: converge.CostStop, Reason: "the taint " + t.String() + " ends pods that do not tolerate it",
					Users: users,
				})
			}
		}
		if have != nil && strings.HasPrefix(have.Labels[sharingLabel], spec.SharingMPS) && have.Labels[sharingLabel] != marks.Labels[sharingLabel] {
			out = append(out, ms.mpsCosts(ctx, n)...)
		}
		return out
	}
}

// mpsCosts is the cost of stopping or restarting the MPS daemon on a node: the jobs that
// compute through it, if any.
func (gs *GPUs) mpsCosts(ctx context.Context, n spec.Node) []converge.Cost {
	users := gs.Users(ctx, func(w *workload.Work) []converge.Loss { return w.Ends(n.Name) })
	if len(users) == 0 {
		return nil
	}
	return []converge.Cost{{
		Machine: "MPS on " + n.Name, Kind: converge.CostStop, Reason: "GPU sharing changes, and jobs that use its daemon end", Users: users,
	}}
}

// costsOfPlugin is what another device plugin costs: its pods restart, which affects only
// jobs that compute through the MPS daemon.
func (gs *GPUs) costsOfPlugin(ctx context.Context, d, _ converge.Diff) []converge.Cost {
	mps := func(f converge.Field) bool {
		return f.Have != "" && strings.HasPrefix(f.Path, "daemonset/") && strings.Contains(f.Path, "-mps/")
	}
	if !slices.ContainsFunc(d, mps) {
		return nil
	}
	var out []converge.Cost
	for _, n := range gs.Spec.GPUNodes() {
		if n.GPUs.Sharing.Strategy == spec.SharingMPS {
			out = append(out, gs.mpsCosts(ctx, n)...)
		}
	}
	return out
}
