package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/nvidia"
)

// pluginStep keeps the device plugin as the file asks. Comparing is the API
// server's business: it is asked what applying would change, and changes nothing.
func (c *Cluster) pluginStep() *converge.Resource[drift.Diff] {
	return &converge.Resource[drift.Diff]{
		ID: "device-plugin",
		Observe: func(ctx context.Context) (drift.Diff, error) {
			objects, err := nvidia.DevicePlugin(c.spec.pluginOptions())
			if err != nil {
				return nil, converge.Permanent(err)
			}
			client, err := c.kube(ctx)
			if err != nil {
				return nil, err
			}
			return client.Diff(ctx, objects...)
		},
		Diff: func(d drift.Diff) drift.Diff { return d },
		Apply: func(ctx context.Context, _ drift.Diff) error {
			objects, err := nvidia.DevicePlugin(c.spec.pluginOptions())
			if err != nil {
				return err
			}
			client, err := c.kube(ctx)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, objects...)
			return err
		},
	}
}

// pluginOptions is how the file wants GPUs to be offered.
func (s *Spec) pluginOptions() nvidia.PluginOptions {
	o := nvidia.PluginOptions{Taints: s.gpuTaints()}
	switch sharing := s.NVIDIA.Sharing; sharing.Strategy {
	case SharingTimeSlicing:
		o.Sharing, o.Replicas = nvidia.TimeSlicing, sharing.Replicas
	case SharingMPS:
		o.Sharing, o.Replicas = nvidia.MPS, sharing.Replicas
	case SharingMIG:
		o.MIG = nvidia.MIGMixed
	}
	return o
}

// gpuTaints are those of all nodes with GPUs. They are declared once, in the file;
// whatever is deployed there tolerates them (failure N5).
func (s *Spec) gpuTaints() []corev1.Taint {
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
