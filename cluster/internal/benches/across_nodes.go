package benches

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/bench"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// everyNode is the node of a check that concerns several of them.
const everyNode = "all nodes"

// AcrossNodesStep sums over the GPUs of all nodes that have free ones, if there are two or more. It returns
// nil where fewer have GPUs, or no image is named.
func (b *Benches) AcrossNodesStep() converge.Step {
	var nodes []spec.Node
	for _, n := range b.Spec.GPUNodes() {
		if n.GPUs.Sharing.Strategy != spec.SharingMIG {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < 2 || b.image(bench.AcrossNodes) == "" {
		return nil
	}
	id := b.plan(bench.AcrossNodes, everyNode)
	a := &participants{}
	return &converge.Resource[jobState]{
		ID: id,
		Observe: func(ctx context.Context) (jobState, error) {
			if a.nothing {
				return jobState{done: true}, converge.Permanent(broken(a.used))
			}
			s, err := b.all(ctx, a)
			s.Job = a.waits.remember(s.Job)
			if err != nil || !s.Ended() {
				return s, err
			}
			lines, err := b.lines(ctx, bench.Name(a.nodes[0].Name, bench.AcrossNodes, b.Verify.RunID))
			if s.Phase == kube.JobFailed { // whichever it was, all wait for it
				err = fmt.Errorf("the job failed: %s", s.Reason)
			}
			judged := bench.Judge(bench.AcrossNodes, everyNode, lines, bench.Machine{Mbit: a.mbit})
			s.checks = complete(bench.AcrossNodes, everyNode, judged, a.world, s.Job, err)
			b.note(id, append(s.checks, a.used...)...)
			return s, converge.Permanent(broken(s.checks))
		},
		Diff: func(s jobState) converge.Diff {
			if s.done || s.Phase == kube.JobSucceeded {
				return nil
			}
			return differs(s.Job, "NCCL sums over the GPUs of all nodes")
		},
		Apply:  func(ctx context.Context, _ jobState) error { return b.createJobs(ctx, nodes, a) },
		Settle: pullTime + bench.AcrossNodes.MaxTime(0) + afterwards, Poll: run.PollInterval,
	}
}

// participants is who takes part.
type participants struct {
	nodes   []spec.Node
	world   int // GPUs
	mbit    int
	used    []check.Check
	nothing bool
	waits   waitReason
}

// all is the state of the Jobs: of the worst of them.
func (b *Benches) all(ctx context.Context, a *participants) (jobState, error) {
	s := jobState{Job: kube.Job{Phase: kube.JobMissing}}
	for i, n := range a.nodes {
		one, err := b.observe(ctx, bench.AcrossNodes, n.Name)
		if err != nil {
			return s, err
		}
		if one.Reason != "" {
			one.Reason = n.Name + ": " + one.Reason
		}
		if one.Phase == kube.JobFailed {
			return one, nil
		}
		if i == 0 || s.Phase == kube.JobSucceeded || one.Phase == kube.JobPending {
			s = one
		}
	}
	return s, nil
}

// createJobs creates the Jobs of all nodes that have free GPUs.
func (b *Benches) createJobs(ctx context.Context, nodes []spec.Node, a *participants) error {
	client, err := b.Kube(ctx)
	if err != nil {
		return err
	}
	*a = participants{}
	counts := map[string]int{}
	for _, n := range nodes {
		count, used, err := b.countFree(ctx, client, bench.AcrossNodes, n)
		if err != nil {
			return err
		}
		a.used = append(a.used, used...)
		if count > 0 {
			a.nodes, counts[n.Name] = append(a.nodes, n), count
			a.world += count
			a.mbit = slower(a.mbit, speed(ctx, b.Root(n.Name)), len(a.nodes) == 1)
		}
	}
	if len(a.nodes) < 2 {
		a.nothing = true
		few := skippedCheck(bench.AcrossNodes, everyNode, fmt.Sprintf("%d of %d nodes have a free GPU", len(a.nodes), len(nodes)))
		b.note(b.id(bench.AcrossNodes, everyNode), append(a.used, few)...)
		return nil
	}
	o := bench.Options{Verify: b.Verify, Image: b.image(bench.AcrossNodes), World: a.world}
	o.Verify.Timeout = run.Limit(b.Spec, pullTime+bench.AcrossNodes.MaxTime(0))
	for i, n := range a.nodes {
		o.Rank = i
		if err := b.create(ctx, client, bench.Job(n.Name, counts[n.Name], bench.AcrossNodes, o)); err != nil {
			return err
		}
		o.First += counts[n.Name]
	}
	return nil
}

// slower is the lower speed of two networks; 0 means unknown, and stays so.
func slower(a, b int, first bool) int {
	if first {
		return b
	}
	return min(a, b)
}

// othersTime is how long another verification may take: its Jobs end by themselves.
const othersTime = 90 * time.Minute

// Sweep waits until other verifications have ended, and deletes what those left that were killed
// before they could.
func (b *Benches) Sweep() converge.Step {
	return &converge.Resource[[]string]{
		ID: "leftovers",
		Observe: func(ctx context.Context) ([]string, error) {
			_, names, _, err := b.leftovers(ctx)
			return names, err
		},
		Diff: func(names []string) (d converge.Diff) {
			for _, name := range names {
				d = append(d, converge.Field{Have: name + " of another verification", Want: "removed, once it has ended", Effect: converge.Remove})
			}
			return d
		},
		Apply: func(ctx context.Context, _ []string) error {
			var objects []runtime.Object
			rule := converge.WaitRule{What: "waiting for another gpu:verify", Limit: othersTime, TimeoutText: "it has not ended",
				Hint: "if nobody runs it any more: kubectl -n " + b.namespace() + " delete jobs -l " + bench.Selector()}
			err := run.Until(ctx, b.Spec, rule, func(ctx context.Context) (running string, err error) {
				objects, _, running, err = b.leftovers(ctx)
				if running != "" {
					running = "its job " + running + " computes"
				}
				return running, err
			})
			if err != nil {
				return err
			}
			client, err := b.Kube(ctx)
			if err != nil {
				return err
			}
			return client.Delete(ctx, objects...)
		},
		Poll: run.PollInterval,
	}
}
