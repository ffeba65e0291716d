package members

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/spec"
)

// PluginStep keeps the device plugin as in the file. The API server does the comparison: a
// dry run returns what applying would change.
func (ms *Members) PluginStep() *converge.Resource[drift.Diff] {
	return &converge.Resource[drift.Diff]{
		ID: "device-plugin",
		Observe: func(ctx context.Context) (drift.Diff, error) {
			objects, err := pluginObjects(ms.Spec)
			if err != nil {
				return nil, converge.Permanent(err)
			}
			client, err := ms.Kube(ctx)
			if err != nil {
				return nil, err
			}
			return client.Diff(ctx, objects...)
		},
		Diff:  func(d drift.Diff) drift.Diff { return d },
		Costs: ms.costsOfPlugin,
		Apply: func(ctx context.Context, _ drift.Diff) error {
			objects, err := pluginObjects(ms.Spec)
			if err != nil {
				return err
			}
			client, err := ms.Kube(ctx)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, objects...)
			return err
		},
	}
}

// pluginObjects are the objects of the device plugins. There is one plugin for each way in
// which nodes share their GPUs, since a plugin reads one configuration. [sharingLabel] selects
// the nodes of each.
func pluginObjects(s *spec.Spec) ([]runtime.Object, error) {
	all := []spec.Sharing{s.NVIDIA.Sharing}
	names := []string{sharingName(s, s.NVIDIA.Sharing)}
	for _, n := range s.GPUNodes() {
		if name := sharingName(s, n.GPUs.Sharing); !slices.Contains(names, name) {
			all, names = append(all, n.GPUs.Sharing), append(names, name)
		}
	}
	var out []runtime.Object
	for i, sharing := range all {
		objects, err := nvidia.DevicePlugin(pluginOptions(s, sharing, names[i]))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			objects = objects[1:] // the namespace, which exists already
		}
		out = append(out, objects...)
	}
	return out, nil
}

// sharingLabel says which device plugin offers a node's GPUs: the cluster's, or that of nodes
// which share their GPUs in another way.
const sharingLabel = "homelab.cps-gpu.github.com/gpu-sharing"

// asCluster is the value of sharingLabel on nodes without a setting of their own. It does not
// name the way of sharing, so that changing it changes one plugin and no labels.
const asCluster = "cluster"

func sharingName(s *spec.Spec, of spec.Sharing) string {
	if of.Name() == s.NVIDIA.Sharing.Name() {
		return asCluster
	}
	return of.Name()
}

// pluginOptions is how some nodes offer their GPUs.
func pluginOptions(s *spec.Spec, sharing spec.Sharing, name string) nvidia.PluginOptions {
	o := nvidia.PluginOptions{Taints: GPUTaints(s), Nodes: map[string]string{sharingLabel: name}}
	if name != asCluster {
		o.Name = nvidia.PluginName + "-" + name
	}
	switch sharing.Strategy {
	case spec.SharingTimeSlicing:
		o.Sharing, o.Replicas = nvidia.TimeSlicing, sharing.Replicas
	case spec.SharingMPS:
		o.Sharing, o.Replicas = nvidia.MPS, sharing.Replicas
	}
	return o
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
