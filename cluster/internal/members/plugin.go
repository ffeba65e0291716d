package members

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
)

// PluginStep keeps the device plugin as in the file. The API server does the comparison: a
// dry run returns what applying would change.
func (gs *GPUs) PluginStep() *converge.Resource[converge.Diff] {
	return &converge.Resource[converge.Diff]{
		ID: "device-plugin",
		Observe: func(ctx context.Context) (converge.Diff, error) {
			objects, err := PluginObjects(gs.Spec)
			if err != nil {
				return nil, converge.Permanent(err)
			}
			client, err := gs.Kube(ctx)
			if err != nil {
				return nil, err
			}
			return client.Diff(ctx, objects...)
		},
		Diff:  func(d converge.Diff) converge.Diff { return d },
		Costs: gs.costsOfPlugin,
		Apply: func(ctx context.Context, _ converge.Diff) error {
			objects, err := PluginObjects(gs.Spec)
			if err != nil {
				return err
			}
			client, err := gs.Kube(ctx)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, objects...)
			return err
		},
	}
}

// PluginObjects are the objects of the device plugins. There is one plugin for each way in
// which nodes share their GPUs, since a plugin reads one configuration. [sharingLabel] selects
// the nodes of each.
func PluginObjects(s *spec.Spec) ([]runtime.Object, error) {
	all := []addon.PluginOptions{pluginOptions(s, spec.Node{GPUs: spec.GPURequest{Sharing: withoutSharing(s.NVIDIA.Sharing)}})}
	for _, n := range s.GPUNodes() {
		o := pluginOptions(s, n)
		if !slices.ContainsFunc(all, func(other addon.PluginOptions) bool { return other.Name == o.Name }) {
			all = append(all, o)
		}
	}
	var out []runtime.Object
	if slices.Contains(s.K3s.Disable, "runtimes") { // else K3s creates it
		out = append(out, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: nvidia.RuntimeClass}, Handler: nvidia.RuntimeClass})
	}
	for i, o := range all {
		objects, err := addon.DevicePlugin(o)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			objects = objects[1:] // the namespace, which exists already
		}
		out = append(out, objects...)
	}
	if slices.Contains(s.K3s.Disable, "runtimes") { // K3s' component that creates it
		out = append(out, addon.RuntimeClass())
	}
	return out, nil
}

// sharingLabel says which device plugin offers a node's GPUs: the cluster's, or that of nodes
// which share their GPUs in another way.
const sharingLabel = "homelab.cps-gpu.github.com/gpu-sharing"

// asCluster is the value of sharingLabel on nodes without a setting of their own. It does not
// name the way of sharing, so that changing it changes one plugin and no labels. Nodes with
// divided GPUs are never among them: each changes its plugin when it is divided, not before.
const asCluster = "cluster"

// divided begins the values of sharingLabel on nodes that divide their GPUs.
const divided = "mig-"

func sharingName(s *spec.Spec, n spec.Node) string {
	if strategy := offer.GPUsOf(n).MIG; strategy != "" {
		return divided + string(strategy)
	}
	of := withoutSharing(n.GPUs.Sharing)
	if of.Name() == withoutSharing(s.NVIDIA.Sharing).Name() {
		return asCluster
	}
	return of.Name()
}

// withoutSharing is the sharing of GPUs that are not divided after all.
func withoutSharing(s spec.Sharing) spec.Sharing {
	if s.Strategy == spec.SharingMIG || s.Strategy == "" {
		return spec.Sharing{Strategy: spec.SharingNone}
	}
	return s
}

// pluginOptions is how a node offers its GPUs.
func pluginOptions(s *spec.Spec, n spec.Node) addon.PluginOptions {
	name := sharingName(s, n)
	o := addon.PluginOptions{Taints: GPUTaints(s), Nodes: map[string]string{sharingLabel: name}, MIG: offer.GPUsOf(n).MIG}
	if name != asCluster {
		o.Name = nvidia.PluginName + "-" + name
	}
	if s := n.GPUs.Sharing; s.Shared() {
		o.Sharing, o.Replicas = s.Strategy, s.Replicas
	}
	return o
}

// redivided reports whether a node divides its GPUs in another way than before, so that what it
// offered before says nothing of what it will offer.
func (ts *Turns) redivided(n spec.Node, was *kube.Node) bool {
	have, want := was.Labels[sharingLabel], sharingName(ts.Spec, n)
	return have != want && (strings.HasPrefix(have, divided) || strings.HasPrefix(want, divided))
}

// Reshare gives a node that is drained the marks of the file, so that from then on the device
// plugin for its new sharing offers its GPUs, not the old one. If the API does not answer, the
// node's own step does it later.
func (gs *GPUs) Reshare(ctx context.Context, n spec.Node) error {
	have, err := gs.ObserveNode(ctx, n.Name)
	if err != nil || have == nil {
		return ctx.Err()
	}
	client, err := gs.Kube(ctx)
	if err != nil {
		return err
	}
	return client.Mark(ctx, n.Name, gs.Marks(n))
}

// GPUTaints are the taints of all nodes with GPUs. The file declares them once, and everything
// that is deployed there tolerates them (failure N5).
func GPUTaints(s *spec.Spec) []corev1.Taint {
	seen := map[string]bool{}
	var out []corev1.Taint
	for _, n := range s.GPUNodes() {
		for _, t := range n.Taints {
			if !seen[t.String()] {
				seen[t.String()] = true
				out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
			}
		}
	}
	return out
}
