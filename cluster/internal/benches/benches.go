package benches

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/bench"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/remote"
)

// Config says what to measure, and how to reach it.
type Config struct {
	Spec   *spec.Spec
	Kube   func(ctx context.Context) (*kube.Client, error)
	Root   func(node string) remote.Runner // logs in to a node
	Verify check.VerifyOptions             // of all Jobs, without a Timeout
	Burn   time.Duration                   // 0: no load
	// Computed takes what the GPUs of a node said of themselves under load.
	Computed func(node string, results []check.VerifyResult)
}

// Benches are the measurements of one run.
type Benches struct {
	Config

	mu     sync.Mutex
	checks map[string][]check.Check // by step
	order  []string                 // the steps
	of     map[string]check.Check   // what is said of a step that was not reached
	jobs   [][]runtime.Object
}

// New prepares the measurements of a run. For each image that it lacks, there is one check.
func New(c Config) *Benches {
	b := &Benches{Config: c, checks: map[string][]check.Check{}, of: map[string]check.Check{}}
	lacks := func(k bench.Kind, why string) {
		if b.image(k) == "" && len(c.Spec.GPUNodes()) > 0 {
			b.note(b.plan(k, everyNode), skippedCheck(k, everyNode, fmt.Sprintf("nvidia.verify.images.%s names no image%s", k, why)))
		}
	}
	lacks(bench.PyTorch, ", so PyTorch, copies between GPUs and sums over them are not tested; PyTorch's own has 3 to 4 GB, and -level=burn takes it")
	lacks(bench.TensorFlow, "")
	return b
}

// pullTime is how long an image of several gigabytes may take to arrive.
const pullTime = 30 * time.Minute

// afterwards is how much longer a step looks than its Job may take: the Job says better what it
// waited for.
const afterwards = 2 * time.Minute

// Kinds are what is measured on each node, and in which order.
func (b *Benches) Kinds() []bench.Kind {
	if b.Burn > 0 {
		return []bench.Kind{bench.Burn, bench.TensorFlow, bench.Peers, bench.AllReduce}
	}
	return []bench.Kind{bench.PyTorch, bench.TensorFlow, bench.Peers, bench.AllReduce}
}

// image is that of a measurement; empty if there is none.
func (b *Benches) image(k bench.Kind) string {
	images := b.Spec.NVIDIA.Images
	switch {
	case k == bench.TensorFlow:
		return images.TensorFlow
	case images.PyTorch == "" && b.Burn > 0:
		return bench.Image
	}
	return images.PyTorch
}

// Steps returns the steps of one node, each after the one before.
func (b *Benches) Steps(n spec.Node) []converge.Step {
	var out []converge.Step
	for _, k := range b.Kinds() {
		offers := offer.GPUsOf(n).Cards
		if n.GPUs.Sharing.Shared() {
			offers = 1
		}
		if offers < k.MinGPUs() || b.image(k) == "" {
			continue
		}
		why := ""
		if n.GPUs.Sharing.Strategy == spec.SharingMIG {
			why = "GPUs of this node may be divided into instances: not tested"
		}
		out = append(out, b.step(k, n, why))
	}
	return out
}

// jobState is what a step has found.
type jobState struct {
	kube.Job
	done   bool
	checks []check.Check
}

// step measures on one node.
func (b *Benches) step(k bench.Kind, n spec.Node, why string) *converge.Resource[jobState] {
	id := b.plan(k, n.Name)
	if why != "" {
		return &converge.Resource[jobState]{ID: id, Observe: func(context.Context) (jobState, error) {
			b.note(id, skippedCheck(k, n.Name, why))
			return jobState{}, nil
		}, Diff: func(jobState) converge.Diff { return nil }}
	}
	m := &machine{node: n}
	return &converge.Resource[jobState]{
		ID: id,
		Observe: func(ctx context.Context) (jobState, error) {
			if m.nothing {
				return jobState{done: true}, converge.Permanent(broken(m.used))
			}
			s, err := b.observe(ctx, k, n.Name)
			s.Job = m.waits.remember(s.Job)
			if err != nil || !s.Ended() {
				return s, err
			}
			lines, err := b.lines(ctx, bench.Name(n.Name, k, b.Verify.RunID))
			if k == bench.Burn {
				m.recordAfter(ctx, b.Root(n.Name))
				b.Computed(n.Name, bench.Results(lines))
			}
			s.checks = complete(k, n.Name, bench.Judge(k, n.Name, lines, m.Machine), m.gpus, s.Job, err)
			b.note(id, append(s.checks, m.used...)...)
			return s, converge.Permanent(broken(s.checks))
		},
		Diff: func(s jobState) converge.Diff {
			if s.done || s.Phase == kube.JobSucceeded {
				return nil
			}
			return differs(s.Job, fmt.Sprintf("%s of %s is measured", b.description(k), n.Name))
		},
		Apply:  func(ctx context.Context, _ jobState) error { return b.createJob(ctx, k, m) },
		Settle: pullTime + k.MaxTime(b.Burn) + afterwards, Poll: run.PollInterval,
	}
}

func differs(j kube.Job, want string) converge.Diff {
	return converge.Diff{{Have: strings.TrimSuffix(string(j.Phase)+": "+j.Reason, ": "), Want: want, Effect: converge.Create}}
}

// description is a measurement in words.
func (b *Benches) description(k bench.Kind) string {
	if k == bench.Burn {
		return fmt.Sprintf("a load of %s", b.Burn)
	}
	return string(k)
}

// createJob creates the Job of a measurement for those GPUs that nobody else has.
func (b *Benches) createJob(ctx context.Context, k bench.Kind, m *machine) error {
	client, err := b.Kube(ctx)
	if err != nil {
		return err
	}
	if m.gpus, m.used, err = b.countFree(ctx, client, k, m.node); err != nil {
		return err
	}
	if m.gpus < k.MinGPUs() {
		m.nothing = true
		b.note(b.id(k, m.node.Name), m.used...)
		return nil
	}
	m.recordBefore(ctx, b.Root(m.node.Name))
	o := bench.Options{Verify: b.Verify, Image: b.image(k), Burn: b.Burn}
	o.Verify.Timeout = run.Limit(b.Spec, pullTime+k.MaxTime(b.Burn))
	return b.create(ctx, client, bench.Job(m.node.Name, m.gpus, k, o))
}

// create applies objects, and keeps them for [Benches.Clean] before they exist.
func (b *Benches) create(ctx context.Context, client *kube.Client, objects []runtime.Object) error {
	b.mu.Lock()
	b.jobs = append(b.jobs, objects)
	b.mu.Unlock()
	_, err := client.Apply(ctx, objects...)
	return err
}

// countFree counts the GPUs of a node that nobody has, and names who has the others.
func (b *Benches) countFree(ctx context.Context, client *kube.Client, k bench.Kind, n spec.Node) (int, []check.Check, error) {
	node, err := client.Node(ctx, n.Name)
	if err != nil {
		return 0, nil, err
	}
	if !node.Ready {
		c := skippedCheck(k, n.Name, "the node is not ready: "+node.Reason)
		c.Verdict = check.Failed
		return 0, []check.Check{c}, nil
	}
	if node.Cordoned {
		return 0, []check.Check{skippedCheck(k, n.Name, "drained and gets no pods: run homelab node:uncordon -node="+n.Name+", then verify again")}, nil
	}
	holders, err := client.Holders(ctx, nvidia.Resource, n.Name)
	if err != nil {
		return 0, nil, err
	}
	count := offer.GPUsOf(n).Cards
	var used []check.Check
	for _, h := range holders {
		count -= int(h.Count)
		what := "1 GPU is"
		if h.Count > 1 {
			what = fmt.Sprintf("%d GPUs are", h.Count)
		}
		used = append(used, skippedCheck(k, n.Name, fmt.Sprintf("%s in use by %s/%s, not tested", what, h.Namespace, h.Pod)))
	}
	switch {
	case n.GPUs.Sharing.Shared() && len(holders) > 0:
		return 0, used, nil // its share may be of any of them
	case n.GPUs.Sharing.Shared():
		if offer.GPUsOf(n).Cards > 1 {
			why := fmt.Sprintf("GPUs are shared, and a pod gets a share of one: the others of %d were not tested", offer.GPUsOf(n).Cards)
			used = append(used, skippedCheck(k, n.Name, why))
		}
		return 1, used, nil
	case count < k.MinGPUs() && len(used) == 0:
		used = append(used, skippedCheck(k, n.Name, "too few GPUs"))
	}
	return max(count, 0), used, nil
}

// observe reads the state of a Job.
func (b *Benches) observe(ctx context.Context, k bench.Kind, node string) (jobState, error) {
	client, err := b.Kube(ctx)
	if err != nil {
		return jobState{}, err
	}
	j, err := client.JobState(ctx, b.namespace(), bench.Name(node, k, b.Verify.RunID))
	return jobState{Job: j}, err
}

// waitReason is what a Job last waited for.
type waitReason string

// remember adds that to a Job whose time limit has passed.
func (w *waitReason) remember(j kube.Job) kube.Job {
	switch {
	case j.Phase == kube.JobPending && j.Reason != "":
		*w = waitReason(j.Reason)
	case j.Phase == kube.JobFailed && *w != "" && strings.Contains(j.Reason, "Deadline"):
		j.Reason += "; it waited: " + string(*w)
	}
	return j
}

// lines reads the last words of a Job.
func (b *Benches) lines(ctx context.Context, job string) ([]bench.Line, error) {
	client, err := b.Kube(ctx)
	if err != nil {
		return nil, err
	}
	ended, err := client.PodTermination(ctx, b.namespace(), "job-name="+job)
	if err != nil {
		return nil, err
	}
	var words strings.Builder
	for _, t := range ended {
		words.WriteString(t.Message + "\n")
	}
	return bench.Parse(words.String())
}

func (b *Benches) namespace() string { return b.Verify.Namespace }

// complete adds a failed check if a program did not say all that it should.
func complete(k bench.Kind, node string, checks []check.Check, want int, j kube.Job, problem error) []check.Check {
	c := check.Check{Node: node, GPU: check.WholeNode, Name: string(k), Verdict: check.Failed}
	least := 1
	if k != bench.AllReduce && k != bench.AcrossNodes {
		least = want
	}
	switch {
	case problem != nil && j.Phase == kube.JobFailed && strings.Contains(j.Reason, "Deadline"):
		c.Detail = "the job did not end in time: " + j.Reason
	case problem != nil:
		c.Detail = problem.Error()
	case j.Phase == kube.JobFailed && broken(checks) == nil:
		c.Detail = "the job failed: " + j.Reason
	case len(checks) < least:
		c.Detail = fmt.Sprintf("%d of %d GPUs left a result", len(checks), want)
	default:
		return checks
	}
	if k == bench.AllReduce || k == bench.AcrossNodes { // that there is no result is said already
		return []check.Check{c}
	}
	return append(checks, c)
}

// broken joins the failed checks.
func broken(checks []check.Check) error {
	var errs []error
	for _, c := range checks {
		if c.Verdict == check.Failed {
			errs = append(errs, fmt.Errorf("%s: %s", c.Subject(), c.Detail))
		}
	}
	return errors.Join(errs...)
}

func skippedCheck(k bench.Kind, node, why string) check.Check {
	return check.Check{Node: node, GPU: check.WholeNode, Name: string(k), Verdict: check.Skipped, Detail: why}
}
