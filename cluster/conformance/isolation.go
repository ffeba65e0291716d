package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// IsolationNamespace is where [CheckIsolation] starts its pods. It is removed afterwards.
const IsolationNamespace = "homelab-conformance"

const isolationLabel = "homelab.cps-gpu.github.com/conformance"

// isolation is the finding without pods.
func (c *cluster) isolation(context.Context) (Finding, error) {
	if len(c.Spec.GPUNodes()) == 0 {
		return noGPUs(), nil
	}
	return Finding{Result: NotShown, Evidence: []string{"only pods can show it, and none was started"},
		Do: fmt.Sprintf("homelab cluster:conformance -run starts four pods on each node with GPUs, two of them with a GPU, in the namespace %s, and removes it", IsolationNamespace)}, nil
}

// podTime is how long one pod may take. The first on a node pulls gigabytes of images.
const podTime = 12 * time.Minute

// isolationRun is one run of [CheckIsolation].
type isolationRun struct {
	Sources
	kube *kube.Client
	run  string
}

// CheckIsolation counts the GPUs that containers see on each node with GPUs: one that requests one, one that
// requests none, and one of each kind that asks NVIDIA's runtime for all, past Kubernetes, unless the cluster refuses
// that. It starts a pod for each, in a namespace of its own that it removes, also if ctx ends. On a node whose GPUs are
// all taken, no pod requests one.
func CheckIsolation(ctx context.Context, s Sources) (_ Finding, err error) {
	f := Finding{Result: Passed}
	nodes := s.Spec.GPUNodes()
	if len(nodes) == 0 {
		return noGPUs(), nil
	}
	client, err := s.Kube(ctx)
	if err != nil {
		return Finding{}, err
	}
	i := isolationRun{s, client, strings.ToLower(rand.Text()[:6])}
	if err := i.makeNamespace(ctx); err != nil {
		return Finding{}, err
	}
	defer func() { err = errors.Join(err, i.removeNamespace(context.WithoutCancel(ctx))) }()
	var seen []observation
	for _, n := range nodes {
		for _, ask := range []check.Ask{check.AskOne, check.AskNothing, check.AskRuntime, check.AskMore} {
			text, err := i.try(ctx, n, ask, &f)
			if err != nil {
				return Finding{}, err
			}
			seen = append(seen, observation{n.Name, text})
		}
	}
	f.Evidence = byText(seen)
	return f, nil
}

func namespace() *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: IsolationNamespace, Labels: map[string]string{isolationLabel: "true"}}}
}

// makeNamespace refuses a namespace that is not of an earlier run, because it would be removed.
func (i isolationRun) makeNamespace(ctx context.Context) error {
	live := namespace()
	live.Labels = nil
	err := i.kube.Get(ctx, live)
	switch {
	case errors.Is(err, kube.ErrNotFound):
	case err != nil:
		return err
	case live.Labels[isolationLabel] != "true":
		return fmt.Errorf("namespace %s exists and is not of homelab: rename or remove it", IsolationNamespace)
	}
	_, err = i.kube.Apply(ctx, namespace())
	return err
}

// removeTime is how long the namespace may take to go, with its pods.
const removeTime = 2 * time.Minute

// removeNamespace waits until the namespace is gone: the next run could not use one that goes.
func (i isolationRun) removeNamespace(ctx context.Context) error {
	if err := i.kube.Delete(ctx, namespace()); err != nil {
		return err
	}
	rule := converge.WaitRule{What: "removing namespace " + IsolationNamespace, Limit: removeTime, OnChange: func(string) {}}
	return run.Until(ctx, i.Spec, rule, func(ctx context.Context) (string, error) {
		err := i.kube.Get(ctx, namespace())
		if errors.Is(err, kube.ErrNotFound) {
			return "", nil
		}
		return "its pods end", err
	})
}

// try starts one pod on a node, says what it saw, and what follows for the finding.
func (i isolationRun) try(ctx context.Context, n spec.Node, ask check.Ask, f *Finding) (string, error) {
	resource := slices.Sorted(maps.Keys(offer.GPUsOf(n).Resources))[0]
	o := check.VerifyOptions{Namespace: IsolationNamespace, RunID: i.run, Taints: members.GPUTaints(i.Spec), Image: i.Spec.NVIDIA.Images.CUDA, Resource: corev1.ResourceName(resource)}
	objects := check.IsolationObjects(n.Name, ask, o)
	if _, err := i.kube.Apply(ctx, objects...); err != nil {
		return "", err
	}
	name := check.IsolationName(n.Name, ask, i.run)
	var job kube.Job
	rule := converge.WaitRule{What: fmt.Sprintf("a pod on %s", n.Name), Limit: podTime, OnChange: func(string) {}}
	err := run.Until(ctx, i.Spec, rule, func(ctx context.Context) (why string, err error) {
		job, err = i.kube.JobState(ctx, IsolationNamespace, name)
		if err != nil || job.Ended() || isRefused(job) || kube.Lacks(job.Reason, resource) {
			return "", err
		}
		return strings.TrimSuffix(string(job.Phase)+": "+job.Reason, ": "), nil
	})
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err == nil && isRefused(job) && ask.Greedy() {
		return fmt.Sprintf("a container that %s is refused", asks(ask, resource)), i.kube.Delete(ctx, objects[1])
	}
	if err != nil || !job.Ended() {
		f.unshown()
		return fmt.Sprintf("a pod that %s did not start: %s", asks(ask, resource), reason(err, job)), i.kube.Delete(ctx, objects[1]) // it would take the next free GPU
	}
	ended, err := i.kube.PodTermination(ctx, IsolationNamespace, "job-name="+name)
	if err != nil {
		return "", err
	}
	words := ""
	for _, t := range ended {
		words += t.Message
	}
	sees, err := check.ParseIsolation(words)
	if err != nil {
		f.unshown()
		return err.Error(), nil //nolint:nilerr // it is what was seen
	}
	if sees != ask.Want() {
		f.Result, f.Do = Failed, cure(ask)
	}
	return fmt.Sprintf("a container that %s sees %s", asks(ask, resource), printable.Count(sees, "GPU")), nil
}

// isRefused reports whether a policy of the cluster refuses the pod of a Job, which then tries forever.
func isRefused(job kube.Job) bool {
	return job.Phase == kube.JobPending && strings.Contains(job.Reason, "ValidatingAdmissionPolicy")
}

func (f *Finding) unshown() {
	if f.Result == Passed {
		f.Result, f.Do = NotShown, "run it again while a GPU of the node is free"
	}
}

func reason(err error, job kube.Job) string {
	if err != nil {
		return err.Error()
	}
	return job.Reason
}

// asks says how a container asks for GPUs.
func asks(a check.Ask, resource string) string {
	switch a {
	case check.AskOne:
		return "requests 1 " + resource
	case check.AskNothing:
		return "requests none"
	case check.AskMore:
		return "requests 1 " + resource + ", and asks the runtime class nvidia for all by NVIDIA_VISIBLE_DEVICES,"
	}
	return "requests none, and asks the runtime class nvidia for all by NVIDIA_VISIBLE_DEVICES,"
}

// cure is what to do if a container sees another number.
func cure(a check.Ask) string {
	if a.Greedy() {
		return "write guard: true under nvidia, which refuses such pods (docs/using-gpus.md); until then, anyone who may make pods can use every GPU of a node"
	}
	return "homelab gpu:verify and homelab cluster:doctor name the cause"
}
