package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
)

// offer adds the steps after which something offers the nodes' GPUs to Kubernetes: homelab's device
// plugin, or the GPU operator. The other one is removed first.
func (c *machines) offer(up *converge.Graph, api *converge.Ref) *converge.Ref {
	if !platform.HasGPUOperator(c.spec) {
		return up.Add(c.pluginStep(), api)
	}
	last := up.Add(c.members.RemovePluginStep(), api)
	for _, p := range c.parts.Pieces() {
		if p.Offers {
			last = c.parts.AddPart(up, p, parts.Ground{API: last}, nil)
		}
	}
	return last
}

// pluginStep keeps homelab's device plugin as in the file. If the cluster had the GPU operator, it
// goes first.
func (c *machines) pluginStep() *converge.Resource[converge.Diff] {
	step := c.members.PluginStep()
	observe, apply := step.Observe, step.Apply
	step.Observe = func(ctx context.Context) (converge.Diff, error) {
		d, err := observe(ctx)
		if err != nil || d.Empty() { // a plugin that is complete came after the operator had gone
			return d, err
		}
		old, err := c.parts.RecordOf(ctx, addon.GPUOperatorName)
		if old != nil {
			d = append(old.Diff(), d...)
		}
		return d, err
	}
	step.Apply = func(ctx context.Context, d converge.Diff) error {
		old, err := c.parts.RecordOf(ctx, addon.GPUOperatorName)
		if err == nil && old != nil {
			err = c.parts.RetirePart(ctx, *old)
		}
		if err != nil {
			return err
		}
		return apply(ctx, d)
	}
	return step
}

// runtimeOf adds the steps that bring another driver of the operator to a node, and let K3s find what
// the operator has installed there, if it installs the driver.
func (c *machines) runtimeOf(up *converge.Graph, n spec.Node, needs ...*converge.Ref) []*converge.Ref {
	if !c.members.HasOperatorDriver(n) {
		return needs
	}
	restart := func(ctx context.Context) error { return c.restart(ctx, n) }
	driver := up.Add(c.members.OperatorDriverStep(n, addon.GPUOperatorNamespace, addon.GPUDriverPods, restart), needs...)
	return []*converge.Ref{up.Add(c.members.RuntimeStep(n, addon.GPUOperatorNamespace, addon.GPUDriverPods), driver)}
}
