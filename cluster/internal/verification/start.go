package verification

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// startJob computes with a Job on those GPUs of a node that nobody else has. As long as the scheduler has not given
// them to it, somebody may take some: then a Job for fewer replaces it.
func (v *Verification) startJob(ctx context.Context, n *verifiedPart) error {
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return err
	}
	for {
		free, used, err := v.countFree(ctx, client, n)
		if err != nil {
			return err
		}
		v.note("verify/"+n.id(), used...)
		if n.count = min(n.count, free); n.count == 0 {
			return nil
		}
		n.jobs++
		if _, err := client.Apply(ctx, v.objects(n)...); err != nil {
			return err
		}
		taken, err := v.lostGPUs(ctx, client, n)
		if err != nil || !taken {
			return err
		}
		if err := client.Delete(ctx, v.objects(n)[1:]...); err != nil { // the other nodes' Jobs read the script too
			return err
		}
	}
}

// countFree counts what others leave of a node's GPUs, and says who has the rest.
func (v *Verification) countFree(ctx context.Context, client *kube.Client, n *verifiedPart) (int, []check.Check, error) {
	all, err := v.holders(ctx, client, n)
	if err != nil {
		return 0, nil, err
	}
	left := n.offered
	var used []check.Check
	for _, h := range all {
		left -= int(h.Count)
		what, cure := "1 is", "wait until it ends, or ask its owner"
		if h.Count > 1 {
			what = fmt.Sprintf("%d are", h.Count)
		}
		if h.User != "" {
			cure = fmt.Sprintf("wait until it ends, or ask %s to stop it in the hub", h.User)
		}
		used = append(used, check.Check{
			Node: n.Name, GPU: check.WholeNode, Name: check.Compute, Verdict: check.Skipped,
			Detail: fmt.Sprintf("%s in use by %s/%s, not tested: %s, then verify again", what, h.Namespace, h.Pod, cure),
		})
	}
	if left >= n.count {
		return left, nil, nil // shares: others have some of them
	}
	return max(left, 0), used, nil
}

// holders are the pods that hold what a Job computes on, except its own.
func (v *Verification) holders(ctx context.Context, client *kube.Client, n *verifiedPart) ([]kube.Holder, error) {
	holders, err := client.Holders(ctx, n.resource, n.Name)
	var out []kube.Holder
	for _, h := range holders {
		if !strings.HasPrefix(h.Pod, v.options(n).JobName(n.Name)) {
			out = append(out, h)
		}
	}
	return out, err
}

// scheduleTime is how long the scheduler may take to say whether a Job's pod starts.
const scheduleTime = 20 * time.Second

// lostGPUs waits for the scheduler's word on a Job, and reports whether others took GPUs that it was to have.
func (v *Verification) lostGPUs(ctx context.Context, client *kube.Client, n *verifiedPart) (bool, error) {
	short := false
	rule := converge.WaitRule{What: "the scheduler", Limit: scheduleTime, Poll: run.PollInterval, OnChange: func(string) {}}
	err := converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
		j, err := client.JobState(ctx, v.namespace(), v.options(n).JobName(n.Name))
		short = j.Phase == kube.JobPending && kube.Lacks(j.Reason, n.resource)
		if err == nil && j.Phase == kube.JobPending && len(j.Nodes) == 0 && !short {
			return "it has not said where the job runs", nil
		}
		return "", err
	})
	if !short || err != nil {
		return false, ctx.Err() // the step goes on looking at the Job
	}
	free, _, err := v.countFree(ctx, client, n)
	return free < n.count, err
}
