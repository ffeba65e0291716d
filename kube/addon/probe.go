package addon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/verify"
)

// probed is the annotation of a storage class that has passed a [Probe]: a digest of the class
// at that time and, for a local class, the tested nodes.
const probed = "homelab.cps-gpu.github.com/probed"

// ProbeNamespace is the default namespace of probes' claims and pods.
const ProbeNamespace = verify.Namespace

// busybox is the image that K3s ships (according to its image lists of 2026): nodes have it
// even without internet.
const (
	busybox        = "docker.io/rancher/mirrored-library-busybox"
	busyboxVersion = "1.37.0"
)

// ProbeImage is the image of probes; any image with sh, cat, printf and rm works.
const ProbeImage = busybox + ":" + busyboxVersion

// Probe tests that a storage class works: it creates a volume, writes a text to it from one
// pod, reads it from another, and removes everything.
type Probe struct {
	Class       string
	Namespace   string                            // default [ProbeNamespace]; created if it is missing
	Image       string                            // with sh, cat, printf and rm; default: busybox
	Mode        corev1.PersistentVolumeAccessMode // default ReadWriteOnce
	Local       bool                              // volumes stay on their node: each of Nodes is tested separately
	Nodes       []string                          // where to write and read; empty: nodes that are ready
	Tolerations []corev1.Toleration
	Size        resource.Quantity // of the volume; default 1Gi, which every driver supports
	Timeout     time.Duration     // for all of it; default 5 minutes
}

// ProbeState is the observed state of a class.
type ProbeState struct {
	Found  bool     // there is such a class
	Passed bool     // a probe of the class in its present form has passed
	Untold []string // for a local class: nodes that are not tested yet
}

// Observe reads the class, and whether a probe has passed since it last changed. For a local
// class, cordoned nodes do not count: they are tested once they are uncordoned.
func (p Probe) Observe(ctx context.Context, k *kube.Client) (ProbeState, error) {
	sc := p.class()
	err := k.Get(ctx, sc)
	if errors.Is(err, kube.ErrNotFound) {
		return ProbeState{}, nil
	}
	if err != nil {
		return ProbeState{}, err
	}
	noted := readNote(sc)
	state := ProbeState{Found: true, Passed: noted.digest == digest(sc)}
	if !p.Local {
		return state, nil
	}
	all, err := k.Nodes(ctx)
	if err != nil {
		return ProbeState{}, err
	}
	for _, n := range p.coveredNodes(all) {
		if !n.Cordoned && (!state.Passed || !slices.Contains(noted.nodes, n.Name)) {
			state.Untold = append(state.Untold, n.Name)
		}
	}
	return state, nil
}

// Diff says what is not tested.
func (p Probe) Diff(have ProbeState) converge.Diff {
	field := converge.Field{Path: "volume of " + p.Class, Want: "written, read and removed once", Effect: converge.Update}
	switch {
	case !have.Found:
		return converge.Diff{{Path: "class", Want: p.Class, Effect: converge.Create, Note: "there is no such storage class yet"}}
	case !have.Passed:
		field.Note = "not tested since the class was created or changed"
	case len(have.Untold) > 0:
		field.Note = "not tested on " + strings.Join(have.Untold, ", ")
	default:
		return nil
	}
	return converge.Diff{field}
}

func (p Probe) class() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Class},
	}
}

// digest changes with everything that can affect whether a class works.
func digest(sc *storagev1.StorageClass) string {
	b, _ := json.Marshal([]any{sc.Provisioner, sc.Parameters, sc.MountOptions, sc.ReclaimPolicy, sc.VolumeBindingMode}) // cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// note is the contents of the annotation on a class.
type note struct {
	digest string
	nodes  []string // sorted
}

func readNote(sc *storagev1.StorageClass) note {
	digest, nodes, _ := strings.Cut(sc.Annotations[probed], " ")
	return note{digest, strings.FieldsFunc(nodes, func(r rune) bool { return r == ',' })}
}

func (n note) String() string {
	return strings.TrimSpace(n.digest + " " + strings.Join(n.nodes, ","))
}

// maxProbes is how many nodes are tested at once.
const maxProbes = 8

// Run tests the class, and annotates it with the result; a local class is tested on the nodes
// that are not tested yet. Leftovers of an earlier run are removed first. What this run
// creates is removed at its end, even if it fails.
func (p Probe) Run(ctx context.Context, k *kube.Client) error {
	p.setDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("not done within %s", p.Timeout))
	defer cancel()
	if err := p.run(ctx, k); err != nil {
		return fmt.Errorf("storage class %s: %w", p.Class, err)
	}
	return nil
}

func (p Probe) run(ctx context.Context, k *kube.Client) error {
	sc := p.class()
	if err := k.Get(ctx, sc); err != nil {
		return err
	}
	now := note{digest: digest(sc)}
	noted := readNote(sc)
	if noted.digest == now.digest && p.Local {
		now.nodes = noted.nodes
	}
	if err := p.prove(ctx, k, sc, now.nodes); err != nil {
		return err
	}
	converge.Progressf(ctx, "volumes of class %s can be written and read", p.Class)
	if p.Local {
		now.nodes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(now.nodes, p.Nodes))))
	}
	return k.Annotate(ctx, sc, map[string]string{probed: now.String()})
}

// prove tests the class on those of its nodes that are not proven, which are its Nodes then.
func (p *Probe) prove(ctx context.Context, k *kube.Client, sc *storagev1.StorageClass, proven []string) error {
	if err := p.choose(ctx, k, proven); err != nil {
		return err
	}
	if _, err := k.Apply(ctx, namespaceObject(p.Namespace, ownLabels("probe"))); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxProbes)
	for _, t := range p.trials(sc) {
		g.Go(func() error { return t.run(gctx, k) })
	}
	return g.Wait()
}

func (p *Probe) setDefaults() {
	if p.Namespace == "" {
		p.Namespace = ProbeNamespace
	}
	if p.Image == "" {
		p.Image = ProbeImage
	}
	if p.Mode == "" {
		p.Mode = corev1.ReadWriteOnce
	}
	if p.Size.IsZero() {
		p.Size = resource.MustParse("1Gi")
	}
	if p.Timeout <= 0 {
		p.Timeout = 5 * time.Minute
	}
}

// trials are the test volumes: one on each node if they are local, else one that is written on
// one node and read on another.
func (p Probe) trials(sc *storagev1.StorageClass) []trial {
	wait := sc.VolumeBindingMode != nil && *sc.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if !p.Local {
		return []trial{{Probe: p, name: shortName(p.Class), writer: p.Nodes[0], reader: p.Nodes[min(1, len(p.Nodes)-1)], waits: wait}}
	}
	var all []trial
	for _, n := range p.Nodes {
		all = append(all, trial{Probe: p, name: shortName(p.Class + "-" + n), writer: n, reader: n, waits: wait})
	}
	return all
}

// shortName keeps a name short enough for pods, whose names end in -write or -read.
func shortName(s string) string {
	const most = 50
	if len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return s[:most-9] + "-" + hex.EncodeToString(sum[:4])
}
