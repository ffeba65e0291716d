package verification

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/internal/volumes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/remote"
)

// factsStep judges what nvidia-smi reports on a node. If nobody can log in, the check is skipped:
// whether the GPUs compute is another step's matter.
func (v *Verification) factsStep(n spec.Node) *converge.Resource[[]check.Check] {
	id := "facts/" + n.Name
	return &converge.Resource[[]check.Check]{
		ID: id,
		Observe: func(ctx context.Context) ([]check.Check, error) {
			var checks []check.Check
			seen, err := nvidia.ObserveDriver(ctx, v.Nodes.Root(n.Name))
			if err == nil {
				checks = check.Facts(n.Name, seen)
			} else if ctx.Err() == nil {
				checks = []check.Check{{Node: n.Name, GPU: check.WholeNode, Name: check.Report, Verdict: check.Skipped, Detail: err.Error()}}
			}
			v.note(id, checks...)
			return checks, converge.Permanent(broken(checks))
		},
		Diff: func([]check.Check) converge.Diff { return nil },
	}
}

// broken joins the failed checks.
func broken(checks []check.Check) error {
	var errs []error
	for _, c := range checks {
		if c.Verdict == check.Failed {
			errs = append(errs, fmt.Errorf("%s: %s: %s", c.Subject(), c.Name, c.Detail))
		}
	}
	return errors.Join(errs...)
}

// offers is how many GPUs, or shares of them, pods can get on a node.
func offers(n spec.Node) int { return offer.GPUsOf(n).Cards * max(1, n.GPUs.Sharing.Replicas) }

func (v *Verification) jobOptions() check.VerifyOptions {
	return check.VerifyOptions{Namespace: v.namespace(), RunID: v.run, Taints: members.GPUTaints(v.Spec), Image: v.Spec.NVIDIA.Images.CUDA}
}

func (v *Verification) overRequestObjects(n spec.Node) []runtime.Object {
	return check.OverRequestObjects(n.Name, offers(n), v.jobOptions())
}

// refuseTime is how long the scheduler may take to say no.
const refuseTime = time.Minute

// refuseStep asks for one GPU more than a node offers. That the Job stays pending for this reason
// is the proof; one that starts fails the step.
func (v *Verification) refuseStep(n spec.Node) *converge.Resource[kube.Job] {
	id := "refuse/" + n.Name
	return &converge.Resource[kube.Job]{
		ID:      id,
		Observe: func(ctx context.Context) (kube.Job, error) { return v.job(ctx, check.Name(n.Name, "refuse", v.run)) },
		Diff: func(j kube.Job) converge.Diff {
			said := kube.Lacks(j.Reason, nvidia.Resource)
			c := check.Check{Node: n.Name, GPU: check.WholeNode, Name: check.OverRequest, Verdict: check.Passed, Detail: fmt.Sprintf("%d were asked for, and refused", offers(n)+1)}
			switch {
			case j.Phase == kube.JobPending && said:
				v.note(id, c)
				return nil
			case j.Phase == kube.JobMissing, j.Phase == kube.JobPending:
				return converge.Diff{{Have: string(j.Phase), Want: fmt.Sprintf("a pod that asks for %d GPUs of %s is refused", offers(n)+1, n.Name), Effect: converge.Create}}
			}
			c.Verdict, c.Detail = check.Failed, fmt.Sprintf("%d were asked for and granted, but the node has %d", offers(n)+1, offers(n))
			v.note(id, c)
			return converge.Diff{{Have: c.Detail, Want: "refused"}}
		},
		Apply:  func(ctx context.Context, _ kube.Job) error { return v.create(ctx, v.overRequestObjects(n)) },
		Settle: refuseTime, Poll: run.PollInterval,
	}
}

func (v *Verification) reloadObjects(n spec.Node) []runtime.Object {
	return check.ReloadObjects(n.Name, v.jobOptions())
}

// volumesStep writes and reads volumes like those that users get on a node.
func (v *Verification) volumesStep(n spec.Node) *converge.Resource[struct{}] {
	id := "volumes/" + n.Name
	return &converge.Resource[struct{}]{
		ID:      id,
		Observe: func(context.Context) (struct{}, error) { return struct{}{}, nil },
		Diff: func(struct{}) converge.Diff {
			return converge.Diff{{Want: "volumes are read as they were written", Effect: converge.Create}}
		},
		Apply: func(ctx context.Context, _ struct{}) error {
			client, err := v.Members.Kube(ctx)
			if err != nil {
				return err
			}
			checks := volumes.Config{Spec: v.Spec, Node: n.Name}.Check(ctx, client)
			v.note(id, checks...)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return converge.Permanent(broken(checks))
		},
		Once: true,
		Hint: fmt.Sprintf("kubectl -n %s get pods,claims,events shows what it waits for", printable.Word(addon.ProbeNamespace)),
	}
}

// reloadState is the state of the Job that holds a GPU, and its result.
type reloadState struct {
	kube.Job
	skipped bool
	result  check.Check
}

// reloadStep has systemd reload its units while a container holds a GPU of a node. It does so only
// if nobody else holds one, because a node that fails this takes the GPUs from all of them.
func (v *Verification) reloadStep(n spec.Node) *converge.Resource[reloadState] {
	id := "keep/" + n.Name
	return &converge.Resource[reloadState]{
		ID: id,
		Observe: func(ctx context.Context) (reloadState, error) {
			if v.skipped(id) {
				return reloadState{skipped: true}, nil
			}
			j, err := v.job(ctx, check.Name(n.Name, "keep", v.run))
			if err != nil || !j.Ended() {
				return reloadState{Job: j}, err
			}
			c, err := v.lastWords(ctx, n)
			if err != nil {
				return reloadState{}, err
			}
			v.note(id, c)
			return reloadState{Job: j, result: c}, converge.Permanent(broken([]check.Check{c}))
		},
		Diff: func(s reloadState) converge.Diff {
			if s.skipped || s.result.Verdict == check.Passed {
				return nil
			}
			return converge.Diff{{Have: strings.TrimSuffix(string(s.Phase)+": "+s.Reason, ": "), Want: "a container keeps its GPU when systemd reloads its units", Effect: converge.Create}}
		},
		Apply: func(ctx context.Context, _ reloadState) error {
			why, err := v.reload(ctx, n)
			if err == nil && why != "" {
				v.note(id, check.Check{Node: n.Name, GPU: check.WholeNode, Name: check.Reload, Verdict: check.Skipped, Detail: why})
			}
			return err
		},
		Settle: check.ReloadTime + time.Minute, Poll: run.PollInterval,
	}
}

// reload starts the Job that holds a GPU, and has systemd reload its units. It does nothing, and
// names the reason, if others hold GPUs of the node, or nobody can log in.
func (v *Verification) reload(ctx context.Context, n spec.Node) (why string, err error) {
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return "", err
	}
	if why, err := v.otherHolders(ctx, client, n); err != nil || why != "" {
		return why, err
	}
	if err := v.create(ctx, v.reloadObjects(n)); err != nil {
		return "", err
	}
	rule := converge.WaitRule{What: "waiting for the container to start", Limit: verifyTime, TimeoutText: "the container did not start"}
	err = run.Until(ctx, v.Spec, rule, func(ctx context.Context) (string, error) {
		j, err := v.job(ctx, check.Name(n.Name, "keep", v.run))
		if err != nil || j.Phase != kube.JobMissing && j.Phase != kube.JobPending {
			return "", err
		}
		return strings.TrimSuffix(string(j.Phase)+": "+j.Reason, ": "), nil
	})
	if err != nil {
		return "", err
	}
	if why, err := v.otherHolders(ctx, client, n); err != nil || why != "" {
		return why, err
	}
	if err := remote.Run(ctx, v.Nodes.Root(n.Name), "systemctl", "daemon-reload"); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "not tried: " + err.Error(), nil
	}
	return "", nil
}

// otherHolders says who else holds a GPU of a node; empty: nobody.
func (v *Verification) otherHolders(ctx context.Context, client *kube.Client, n spec.Node) (string, error) {
	holders, err := client.Holders(ctx, nvidia.Resource, n.Name)
	if err != nil {
		return "", err
	}
	for _, h := range holders {
		if !strings.HasPrefix(h.Pod, check.Name(n.Name, "keep", v.run)) {
			return fmt.Sprintf("not tried, since a failure would take the GPUs of others: %s", h), nil
		}
	}
	return "", nil
}

// lastWords reads the result of the Job that held a GPU.
func (v *Verification) lastWords(ctx context.Context, n spec.Node) (check.Check, error) {
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return check.Check{}, err
	}
	ended, err := client.PodTermination(ctx, v.namespace(), "job-name="+check.Name(n.Name, "keep", v.run))
	if err != nil {
		return check.Check{}, err
	}
	words := ""
	for _, t := range ended {
		words += t.Message
	}
	return check.ParseReload(n.Name, words), nil
}

func (v *Verification) job(ctx context.Context, name string) (kube.Job, error) {
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return kube.Job{}, err
	}
	return client.JobState(ctx, v.namespace(), name)
}

func (v *Verification) create(ctx context.Context, objects []runtime.Object) error {
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return err
	}
	_, err = client.Apply(ctx, objects...)
	return err
}
