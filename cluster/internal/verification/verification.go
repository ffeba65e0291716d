package verification

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/benches"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/internal/volumes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/secret"
)

// Result is the result for one GPU of one node.
type Result struct {
	Node string
	check.VerifyResult
	Note string // what the result does not prove
}

// Config is what a Verification needs.
type Config struct {
	Spec    *spec.Spec
	Members *members.Members
	Nodes   *nodes.Nodes
	Quick   bool          // it computes on every GPU, and does nothing else
	Burn    time.Duration // it loads every GPU so long, in place of computing once; 0: it computes
}

// Verification is a running or finished proof that every GPU computes.
type Verification struct {
	Config
	run   string                     // distinguishes the Jobs of this run from earlier ones
	parts map[string][]*verifiedPart // by node

	mu      sync.Mutex
	results map[string][]check.VerifyResult
	checks  map[string][]check.Check // by step

	benches *benches.Benches // nil for Quick
}

// New prepares a Job for each node with GPUs, which computes on every one of them, and the checks.
// Run the graph, then read the Results and Checks.
func New(c Config) (*converge.Graph, *Verification) {
	v := &Verification{Config: c, run: runID(), parts: map[string][]*verifiedPart{}, results: map[string][]check.VerifyResult{}, checks: map[string][]check.Check{}}
	g := c.Members.Graph()
	var swept *converge.Ref
	if !c.Quick {
		v.benches = v.newBenches()
		swept = g.Add(v.benches.Sweep())
	}
	var last []*converge.Ref
	for _, n := range c.Spec.GPUNodes() {
		if c.Members.HasDriver(n) {
			g.Add(v.factsStep(n))
		}
		v.parts[n.Name] = partsOf(n)
		needs := []*converge.Ref{g.Add(c.Members.AllocatableStep(n), swept)}
		if c.Burn == 0 {
			for _, p := range v.parts[n.Name] {
				needs = append(needs, g.Add(v.step(p), needs[0]))
			}
		}
		if c.Quick {
			continue
		}
		if (volumes.Config{Spec: c.Spec, Node: n.Name}).Any() {
			g.Add(v.volumesStep(n), needs...)
		}
		for _, s := range v.benches.Steps(n) {
			needs = []*converge.Ref{g.Add(s, needs...)}
		}
		if n.GPUs.Sharing.Strategy != spec.SharingMIG { // instances have names of their own
			needs = []*converge.Ref{g.Add(v.reloadStep(n), g.Add(v.refuseStep(n), needs...))}
		}
		last = append(last, needs...)
	}
	if !c.Quick {
		if s := v.benches.AcrossNodesStep(); s != nil {
			g.Add(s, last...)
		}
	}
	return g, v
}

// newBenches prepares what is measured with PyTorch and TensorFlow.
func (v *Verification) newBenches() *benches.Benches {
	return benches.New(benches.Config{Spec: v.Spec, Kube: v.Members.Kube, Root: v.Nodes.Root, Verify: v.jobOptions(), Burn: v.Burn,
		Computed: v.record})
}

// verifiedPart is what one Job verifies: all of one resource of a node, or what others leave of it.
type verifiedPart struct {
	spec.Node
	resource string
	offered  int
	count    int  // what the Job requests
	alone    bool // the node offers nothing else
	jobs     int  // how many were started, of which only the last stays
}

// partsOf returns what the Jobs of a node verify. A container cannot have devices of several
// resources, so each has a Job of its own.
func partsOf(n spec.Node) []*verifiedPart {
	offers := offer.GPUsOf(n).Resources
	var out []*verifiedPart
	for _, name := range slices.Sorted(maps.Keys(offers)) {
		p := &verifiedPart{Node: n, resource: name, offered: offers[name], count: offers[name], alone: len(offers) == 1}
		if n.GPUs.Sharing.Shared() {
			p.count = 1 // the device plugin refuses to give a pod two shares, which may be of one GPU
		}
		out = append(out, p)
	}
	return out
}

// id names the part: the node, and where it offers several resources, which.
func (p *verifiedPart) id() string {
	if p.alone {
		return p.Name
	}
	_, what, _ := strings.Cut(p.resource, "/")
	return p.Name + "/" + what
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

// jobState is the state of a node's Job.
type jobState struct {
	kube.Job
	results []check.VerifyResult
	problem error
}

func (v *Verification) step(n *verifiedPart) *converge.Resource[jobState] {
	return &converge.Resource[jobState]{
		ID:      "verify/" + n.id(),
		Observe: func(ctx context.Context) (jobState, error) { return v.observe(ctx, n) },
		Diff: func(s jobState) converge.Diff {
			if s.Phase == kube.JobSucceeded {
				return nil
			}
			f := converge.Field{Have: string(s.Phase), Want: fmt.Sprintf("a CUDA job on %s succeeds", n.requestText()), Effect: converge.Create}
			if s.Reason != "" {
				f.Have += ": " + s.Reason
			}
			return converge.Diff{f}
		},
		Apply:  func(ctx context.Context, _ jobState) error { return v.startJob(ctx, n) },
		Settle: verifyTime,
		Poll:   run.PollInterval,
	}
}

// requestText says what a Job requests.
func (p *verifiedPart) requestText() string {
	switch {
	case p.GPUs.Sharing.Shared():
		return "one share of a GPU"
	case offer.GPUsOf(p.Node).MIG == nvidia.MIGSingle:
		return fmt.Sprintf("%d instances of GPUs", p.count)
	case p.resource != nvidia.Resource:
		return fmt.Sprintf("%d %s", p.count, p.resource)
	}
	return fmt.Sprintf("%d GPUs", p.count)
}

// note says what the result of a Job does not prove.
func note(n spec.Node) string {
	s := n.GPUs.Sharing
	if !s.Shared() {
		return ""
	}
	text := fmt.Sprintf("one of %d shares (%s)", offer.GPUsOf(n).Cards*s.Replicas, s.Strategy)
	if offer.GPUsOf(n).Cards > 1 {
		text += fmt.Sprintf("; the node has %d GPUs, the others were not tested", offer.GPUsOf(n).Cards)
	}
	return text
}

// verifyTime is how long a node may take. The first time, it pulls gigabytes of images.
const verifyTime = 12 * time.Minute

func (v *Verification) objects(n *verifiedPart) []runtime.Object {
	return check.VerifyObjects(n.Name, n.count, v.options(n))
}

func (v *Verification) options(n *verifiedPart) check.VerifyOptions {
	o := v.jobOptions()
	o.Resource = corev1.ResourceName(n.resource)
	if n.jobs > 1 {
		o.RunID += fmt.Sprintf("n%d", n.jobs)
	}
	return o
}

// namespace is that of what offers the GPUs. Its pods may be privileged.
func (v *Verification) namespace() string {
	if platform.HasGPUOperator(v.Spec) {
		return addon.GPUOperatorNamespace
	}
	if v.Spec.NVIDIA.Stack == spec.StackDRA {
		return addon.DRADriverNamespace
	}
	return nvidia.PluginName
}

// observe reads a node's Job. A failed Job is a permanent error.
func (v *Verification) observe(ctx context.Context, n *verifiedPart) (jobState, error) {
	if n.count == 0 {
		return jobState{Job: kube.Job{Phase: kube.JobSucceeded}}, nil // others have all
	}
	client, err := v.Members.Kube(ctx)
	if err != nil {
		return jobState{}, err
	}
	name := v.options(n).JobName(n.Name)
	job, err := client.JobState(ctx, v.namespace(), name)
	if err != nil {
		return jobState{}, err
	}
	s := jobState{Job: job}
	switch {
	case job.Phase == kube.JobMissing:
		return s, checkSchedulable(ctx, client, n.Name)
	case job.Phase == kube.JobPending:
		s.Reason = v.addHolders(ctx, client, n, job.Reason)
		return s, nil
	case !job.Ended():
		return s, nil
	}
	ended, err := client.PodTermination(ctx, v.namespace(), "job-name="+name)
	if err != nil {
		return s, err
	}
	for _, t := range ended {
		results, problem := check.ParseVerify(t.Message)
		s.results, s.problem = append(s.results, results...), errors.Join(s.problem, problem)
	}
	if s.Phase == kube.JobFailed && len(ended) == 0 { // its time limit passed before it started
		s.Reason = v.addHolders(ctx, client, n, job.Reason)
	}
	v.record(n.id(), s.results)
	if err = s.verdict(n); err != nil {
		err = errors.Join(err, v.logOf(ctx, n.Node))
	}
	return s, converge.Permanent(err)
}

// logOf is what the kernel's log of a node says about its GPUs; nil if it says nothing, or cannot
// be read.
func (v *Verification) logOf(ctx context.Context, n spec.Node) error {
	found, err := nvidia.ReadLog(ctx, v.Nodes.Root(n.Name))
	if err != nil {
		return nil //nolint:nilerr // it only adds to another error
	}
	var errs []error
	for _, f := range found {
		errs = append(errs, fmt.Errorf("the kernel's log of %s: %s", n.Name, f))
	}
	return errors.Join(errs...)
}

// checkSchedulable returns an error if a node is drained: a Job would wait there forever.
func checkSchedulable(ctx context.Context, client *kube.Client, name string) error {
	node, err := client.Node(ctx, name)
	if err != nil || !node.Cordoned {
		return err
	}
	return converge.Permanent(fmt.Errorf("%s is drained and gets no pods\n  run homelab node:uncordon -node=%s, then verify again", name, printable.Word(name)))
}

// verdict is the problem of a Job that has ended, nil if it succeeded.
func (s jobState) verdict(n *verifiedPart) error {
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
	case len(s.results) != n.count:
		errs = append(errs, fmt.Errorf("a job on %s requested %s, but %d of them computed", n.Name, n.requestText(), len(s.results)))
	}
	return errors.Join(errs...)
}

// addHolders adds to the reason why a Job does not start which pods hold the GPUs that it waits for,
// except its own.
func (v *Verification) addHolders(ctx context.Context, client *kube.Client, n *verifiedPart, reason string) string {
	holders, err := v.holders(ctx, client, n)
	if err != nil {
		return reason
	}
	reasons := []string{reason}
	for _, h := range holders {
		reasons = append(reasons, h.String())
	}
	return strings.TrimPrefix(strings.Join(reasons, "; "), "; ")
}
