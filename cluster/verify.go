package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/spec"
)

// GPUResult is the result for one GPU of one node.
type GPUResult struct {
	Node string `json:"node"`
	nvidia.VerifyResult
	// Note says what the result does not prove: if GPUs are shared, a pod gets one share, and the
	// node's other GPUs are not tested.
	Note string `json:"note,omitempty"`
}

// VerifyLevel says how much a verification does.
type VerifyLevel string

// The levels.
const (
	// VerifyQuick computes on every GPU, and judges what nvidia-smi reports on the nodes.
	VerifyQuick VerifyLevel = "quick"
	// VerifyFull also asks for one GPU more than each node offers, which must be refused, and has
	// systemd reload its units while a container holds the GPUs, which must keep them. It does the
	// latter only on nodes where nobody else holds a GPU.
	VerifyFull VerifyLevel = "full"
)

// Verification is a running or finished proof that every GPU computes.
type Verification struct {
	cluster *Cluster
	run     string // distinguishes the Jobs of this run from earlier ones

	mu      sync.Mutex
	results map[string][]nvidia.VerifyResult
	checks  map[string][]check.Check // by step
}

// GPUVerify prepares a Job for each node with GPUs, which computes on every one of them, and the
// checks of the level. Run the graph, then read the Results and Checks.
func (c *Cluster) GPUVerify(level VerifyLevel) (*converge.Graph, *Verification) {
	v := &Verification{cluster: c, run: runID(), results: map[string][]nvidia.VerifyResult{}, checks: map[string][]check.Check{}}
	g := run.Graph(c.spec)
	for _, n := range c.spec.GPUNodes() {
		if c.members.HasDriver(n) {
			g.Add(v.factsStep(n))
		}
		last := g.Add(v.step(n), g.Add(c.members.AllocatableStep(n)))
		if level == VerifyFull {
			last = g.Add(v.refuseStep(n), last)
			g.Add(v.keepStep(n), last)
		}
	}
	return g, v
}

// runID returns a short id that is valid in a name and different each time.
func runID() string { return time.Now().UTC().Format("150405") + lower(secret.Random(3).Reveal()) }

// lower returns s in lower case, with only letters and digits, for a Kubernetes name.
func lower(s string) string {
	var out []rune
	for _, r := range s {
		switch {
		case r >= 'A' && r <= 'Z':
			out = append(out, r-'A'+'a')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			out = append(out, r)
		}
	}
	return string(out)
}

// verified is the state of a node's Job.
type verified struct {
	kube.Job
	results []nvidia.VerifyResult
	problem error
}

func (v *Verification) step(n spec.Node) *converge.Resource[verified] {
	return &converge.Resource[verified]{
		ID:      "verify/" + n.Name,
		Observe: func(ctx context.Context) (verified, error) { return v.observe(ctx, n) },
		Diff: func(s verified) drift.Diff {
			if s.Phase == kube.JobSucceeded {
				return nil
			}
			f := drift.Field{Have: string(s.Phase), Want: fmt.Sprintf("a CUDA job on %s succeeds", asks(n)), Effect: drift.Create}
			if s.Reason != "" {
				f.Have += ": " + s.Reason
			}
			return drift.Diff{f}
		},
		Apply: func(ctx context.Context, _ verified) error {
			client, err := v.cluster.members.Kube(ctx)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, v.objects(n)...)
			return err
		},
		Settle: verifyTime,
		Poll:   run.LookEvery,
	}
}

// verifies is how many GPUs a node's Job requests: all of them at once. If they are shared, it
// requests one share: the device plugin refuses to give a pod two, which may be of one GPU.
func verifies(n spec.Node) int {
	if n.GPUs.Sharing.Shared() {
		return 1
	}
	return n.GPUs.Count
}

func asks(n spec.Node) string {
	if n.GPUs.Sharing.Shared() {
		return "one share of a GPU"
	}
	return fmt.Sprintf("%d GPUs", n.GPUs.Count)
}

// note says what the result of a node's Job does not prove.
func note(n spec.Node) string {
	s := n.GPUs.Sharing
	if !s.Shared() {
		return ""
	}
	text := fmt.Sprintf("one of %d shares (%s)", n.GPUs.Count*s.Replicas, s.Strategy)
	if n.GPUs.Count > 1 {
		text += fmt.Sprintf("; the node has %d GPUs, the others were not tested", n.GPUs.Count)
	}
	return text
}

// verifyTime is how long a node may take. The first time, it pulls gigabytes of images.
const verifyTime = 12 * time.Minute

func (v *Verification) objects(n spec.Node) []runtime.Object {
	return nvidia.VerifyObjects(n.Name, verifies(n), nvidia.VerifyOptions{RunID: v.run, Taints: members.GPUTaints(v.cluster.spec)})
}

// observe reads a node's Job. A failed Job is a permanent error.
func (v *Verification) observe(ctx context.Context, n spec.Node) (verified, error) {
	client, err := v.cluster.members.Kube(ctx)
	if err != nil {
		return verified{}, err
	}
	name := nvidia.VerifyName(n.Name, v.run)
	job, err := client.JobState(ctx, nvidia.PluginName, name)
	if err != nil {
		return verified{}, err
	}
	s := verified{Job: job}
	switch {
	case job.Phase == kube.JobMissing:
		return s, takesPods(ctx, client, n.Name)
	case job.Phase == kube.JobPending:
		s.Reason = v.busy(ctx, client, n, job.Reason)
		return s, nil
	case !job.Ended():
		return s, nil
	}
	ended, err := client.PodTermination(ctx, nvidia.PluginName, "job-name="+name)
	if err != nil {
		return s, err
	}
	for _, t := range ended {
		results, problem := nvidia.ParseVerify(t.Message)
		s.results, s.problem = append(s.results, results...), errors.Join(s.problem, problem)
	}
	if s.Phase == kube.JobFailed && len(ended) == 0 { // its time limit passed before it started
		s.Reason = v.busy(ctx, client, n, job.Reason)
	}
	v.keep(n.Name, s.results)
	return s, converge.Permanent(s.verdict(n))
}

// takesPods returns an error if a node is drained: a Job would wait there forever.
func takesPods(ctx context.Context, client *kube.Client, name string) error {
	node, err := client.Node(ctx, name)
	if err != nil || !node.Cordoned {
		return err
	}
	return converge.Permanent(fmt.Errorf("%s is drained and gets no pods\n  run go tool mage node:uncordon -node=%s, then verify again", name, name))
}

// verdict is the problem of a Job that has ended, nil if it succeeded.
func (s verified) verdict(n spec.Node) error {
	var errs []error
	for _, r := range s.results {
		if !r.Passed {
			errs = append(errs, fmt.Errorf("GPU %d (%s, %s) of %s failed: %s", r.Index, r.Name, r.UUID, n.Name, r.Detail))
		}
	}
	switch {
	case len(errs) > 0:
	case s.problem != nil:
		errs = append(errs, s.problem)
	case s.Phase == kube.JobFailed:
		errs = append(errs, fmt.Errorf("the job failed: %s", s.Reason))
	case len(s.results) != verifies(n):
		errs = append(errs, fmt.Errorf("a job on %s requested %s, but %d of them computed", n.Name, asks(n), len(s.results)))
	}
	return errors.Join(errs...)
}

// busy adds to the reason why a Job does not start which pods hold the GPUs that it waits for,
// except its own.
func (v *Verification) busy(ctx context.Context, client *kube.Client, n spec.Node, reason string) string {
	holders, err := client.WhoHolds(ctx, string(nvidia.Resource), n.Name)
	if err != nil {
		return reason
	}
	reasons := []string{reason}
	for _, h := range holders {
		if !strings.HasPrefix(h.Pod, nvidia.VerifyName(n.Name, v.run)) {
			reasons = append(reasons, h.String())
		}
	}
	return strings.TrimPrefix(strings.Join(reasons, "; "), "; ")
}

func (v *Verification) keep(node string, results []nvidia.VerifyResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.results[node] = results
}

// Results are the results of all GPUs that have reported, in the order of the file.
func (v *Verification) Results() []GPUResult {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []GPUResult
	for _, n := range v.cluster.spec.GPUNodes() {
		for _, r := range v.results[n.Name] {
			out = append(out, GPUResult{Node: n.Name, VerifyResult: r, Note: note(n)})
		}
	}
	return out
}

// Clean removes the Jobs of this run. Kubernetes deletes the Jobs of other runs after an
// hour.
func (v *Verification) Clean(ctx context.Context) error {
	client, err := v.cluster.members.Kube(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range v.cluster.spec.GPUNodes() {
		for _, objects := range [][]runtime.Object{v.objects(n), v.refused(n), v.kept(n)} {
			errs = append(errs, client.Delete(ctx, objects...))
		}
	}
	return errors.Join(errs...)
}
