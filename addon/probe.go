package addon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Probed is the annotation of a storage class that a [Probe] has passed: a digest of
// what the class was then.
const Probed = "homelab.cps-gpu.github.com/probed"

// ProbeNamespace is where probes make their claims and pods, unless they say otherwise.
const ProbeNamespace = "homelab-probe"

// busybox is the copy that K3s has among its own images (seen in image lists
// of 2026): nodes have it already, also where there is no internet.
const (
	busybox        = "docker.io/rancher/mirrored-library-busybox"
	busyboxVersion = "1.37.0"
)

// ProbeImage is what probes run: any image with sh, cat, printf and rm.
const ProbeImage = busybox + ":" + busyboxVersion

// Probe proves that a storage class works: it has a volume made, writes a text to it
// from one pod, reads it from another, and removes it all.
type Probe struct {
	Class       string
	Namespace   string                            // default [ProbeNamespace]; made where it is not there
	Image       string                            // default [ProbeImage]
	Mode        corev1.PersistentVolumeAccessMode // default ReadWriteOnce
	Local       bool                              // volumes stay on their node: each of Nodes is probed by itself
	Nodes       []string                          // where to write, and where to read; empty: nodes that are ready
	Labels      map[string]string                 // only nodes that carry these
	Tolerations []corev1.Toleration
	Size        resource.Quantity // of the volume; default 1Gi, which every driver makes
	Timeout     time.Duration     // for all of it; default 5 minutes
}

// Probes returns a probe for every storage class of a part, by what the class is.
// nodes are the cluster's, by name, and taints those that they carry. A node that is
// not ready matters only where volumes are local.
func Probes(p chart.Part, nodes []string, taints []corev1.Taint) []Probe {
	var probes []Probe
	for _, o := range p.After {
		sc, ok := o.(*storagev1.StorageClass)
		if !ok || !slices.Contains(p.Classes, sc.Name) {
			continue
		}
		probe := Probe{Class: sc.Name, Nodes: nodes, Tolerations: Tolerations(taints)}
		switch {
		case sc.VolumeBindingMode != nil && *sc.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
			probe.Local = true
			probe.Nodes, probe.Labels = homes(sc, nodes)
		case sc.Provisioner == nfsDriver || sc.Provisioner == cephFSDriver:
			probe.Mode = corev1.ReadWriteMany
		}
		probes = append(probes, probe)
	}
	return probes
}

// homes are the nodes that a local class makes volumes on: by name, or by label.
func homes(sc *storagev1.StorageClass, nodes []string) ([]string, map[string]string) {
	if len(sc.AllowedTopologies) == 0 || len(sc.AllowedTopologies[0].MatchLabelExpressions) == 0 {
		return nodes, nil
	}
	req := sc.AllowedTopologies[0].MatchLabelExpressions[0]
	if req.Key != corev1.LabelHostname {
		return nil, map[string]string{req.Key: req.Values[0]}
	}
	return slices.DeleteFunc(slices.Clone(req.Values), func(n string) bool { return !slices.Contains(nodes, n) }), nil
}

// ProbeState is what a class looks like to a probe.
type ProbeState struct {
	Found  bool   // there is such a class
	Passed bool   // a probe of the class as it is now has passed
	digest string // of the class as it is now
}

// Observe reads the class, and whether a probe has passed since it last changed.
func (p Probe) Observe(ctx context.Context, k *kube.Client) (ProbeState, error) {
	sc := p.class()
	err := k.Get(ctx, sc)
	if errors.Is(err, kube.ErrNotFound) {
		return ProbeState{}, nil
	}
	if err != nil {
		return ProbeState{}, err
	}
	digest := p.digest(sc)
	return ProbeState{Found: true, Passed: sc.Annotations[Probed] == digest, digest: digest}, nil
}

// Diff says what is not proven.
func (p Probe) Diff(have ProbeState) drift.Diff {
	switch {
	case !have.Found:
		return drift.Diff{{Path: "class", Want: p.Class, Effect: drift.Create, Note: "there is no such storage class yet"}}
	case !have.Passed:
		return drift.Diff{{Path: "volume of " + p.Class, Want: "written, read and removed once", Effect: drift.Update, Note: "not tried since the class was made or changed"}}
	}
	return nil
}

func (p Probe) class() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Class},
	}
}

// digest changes with whatever may make a class work or not. A local class is proven
// for the nodes on which it was tried.
func (p Probe) digest(sc *storagev1.StorageClass) string {
	about := []any{sc.Provisioner, sc.Parameters, sc.MountOptions, sc.ReclaimPolicy, sc.VolumeBindingMode, sc.AllowedTopologies}
	if p.Local {
		about = append(about, slices.Sorted(slices.Values(p.Nodes)))
	}
	b, _ := json.Marshal(about) // of maps, slices and strings: it cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// maxProbes is how many nodes are probed at once.
const maxProbes = 8

// Run proves the class, and notes that on it. What an earlier run left behind is
// removed first; what this one makes is removed at its end, also when it fails.
func (p Probe) Run(ctx context.Context, k *kube.Client) error {
	p.fill()
	sc := p.class()
	if err := k.Get(ctx, sc); err != nil {
		return fmt.Errorf("storage class %s: %w", p.Class, err)
	}
	digest := p.digest(sc) // before nodes are chosen, as Observe sees it
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("not done within %s", p.Timeout))
	defer cancel()
	if err := p.choose(ctx, k); err != nil {
		return err
	}
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Namespace, Labels: owned("probe")}}
	if _, err := k.Apply(ctx, namespace); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxProbes)
	for _, t := range p.trials(sc) {
		g.Go(func() error { return t.run(gctx, k) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("storage class %s: %w", p.Class, err)
	}
	progress.Say(ctx, "volumes of class %s can be written and read", p.Class)
	return k.Annotate(ctx, sc, map[string]string{Probed: digest})
}

func (p *Probe) fill() {
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

// choose leaves the nodes that pods can run on now.
func (p *Probe) choose(ctx context.Context, k *kube.Client) error {
	all, err := k.Nodes(ctx)
	if err != nil {
		return err
	}
	var fit []string
	for _, n := range all {
		asked := len(p.Nodes) == 0 || slices.Contains(p.Nodes, n.Name)
		if asked && carries(n.Labels, p.Labels) && n.Ready && !n.Cordoned && p.tolerates(n.Taints) {
			fit = append(fit, n.Name)
		}
	}
	if p.Local && len(fit) < len(p.Nodes) {
		missing := slices.DeleteFunc(slices.Clone(p.Nodes), func(n string) bool { return slices.Contains(fit, n) })
		return fmt.Errorf("storage class %s: nodes %v are not ready, cordoned, or have taints that are not tolerated: volumes on them cannot be tried", p.Class, missing)
	}
	if len(fit) == 0 {
		return fmt.Errorf("storage class %s: no node is ready for a pod that tries it", p.Class)
	}
	p.Nodes = fit
	return nil
}

func carries(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

func (p *Probe) tolerates(taints []kube.Taint) bool {
	for _, t := range taints {
		taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		ok := t.Effect == string(corev1.TaintEffectPreferNoSchedule) ||
			slices.ContainsFunc(p.Tolerations, func(one corev1.Toleration) bool { return tolerates(one, taint) })
		if !ok {
			return false
		}
	}
	return true
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
}

// trials are the volumes to try: one on each node where they are local, else one
// that is written on one node and read on another.
func (p Probe) trials(sc *storagev1.StorageClass) []trial {
	wait := sc.VolumeBindingMode != nil && *sc.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if !p.Local {
		return []trial{{Probe: p, name: named(p.Class), writer: p.Nodes[0], reader: p.Nodes[min(1, len(p.Nodes)-1)], waits: wait}}
	}
	var all []trial
	for _, n := range p.Nodes {
		all = append(all, trial{Probe: p, name: named(p.Class + "-" + n), writer: n, reader: n, waits: wait})
	}
	return all
}

// named keeps a name short enough for pods, whose names end in -write or -read.
func named(s string) string {
	const most = 50
	if len(s) <= most {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return s[:most-9] + "-" + hex.EncodeToString(sum[:4])
}
