package cluster

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// offer adds the steps after which something offers the nodes' GPUs to Kubernetes: homelab's device
// plugin, the GPU operator or the DRA driver. The others are removed first.
func (c *machines) offer(up *converge.Graph, api *converge.Ref) *converge.Ref {
	last := api
	for _, p := range c.parts.Pieces() {
		if p.Offers {
			last = c.parts.AddPart(up, p, parts.Ground{API: up.Add(c.removePluginStep(p.Name), last)}, nil)
		}
	}
	if last == api {
		return up.Add(c.pluginStep(), api)
	}
	return last
}

// removePluginStep removes homelab's device plugin before a part offers the GPUs. The part itself removes the
// other one.
func (c *machines) removePluginStep(part string) *converge.Resource[[]kube.Ref] {
	other, title := addon.DRADriverName, "the GPU operator"
	if part == addon.DRADriverName {
		other, title = addon.GPUOperatorName, "the DRA driver"
	}
	step := c.members.RemovePluginStep(title)
	observe := step.Observe
	step.Observe = func(ctx context.Context) ([]kube.Ref, error) {
		have, err := observe(ctx)
		if err != nil {
			return nil, err
		}
		old, err := c.parts.RecordOf(ctx, other)
		if err == nil && (old != nil || part == addon.DRADriverName && len(have) > 0) {
			err = unheld(ctx, c.members.Kube)
		}
		return have, err
	}
	return step
}

// unheld refuses to change between DRA and something else while pods hold GPUs. Kubernetes knows which cards a
// device plugin gave out, and which ones claims have, and neither knows of the other: the new one would give a
// card to a second pod.
func unheld(ctx context.Context, connect func(context.Context) (*kube.Client, error)) error {
	client, err := connect(ctx)
	if err != nil {
		return err
	}
	holders, err := client.Holders(ctx, nvidiaPrefix, "")
	if err != nil || len(holders) == 0 {
		return err
	}
	first := holders[0].Namespace + "/" + holders[0].Pod
	if n := len(holders) - 1; n > 0 {
		first += " and " + printable.Count(n, "more pod")
	}
	return converge.Permanent(fmt.Errorf("nvidia.stack changes, and GPUs are in use by %s: DRA and a device plugin do not know which cards the other one has given out: "+
		"stop these pods first, then run it again", first))
}

// pluginStep keeps homelab's device plugin as in the file. If the cluster had the GPU operator or the DRA driver, that
// goes first.
func (c *machines) pluginStep() *converge.Resource[converge.Diff] {
	step := c.members.PluginStep()
	observe, apply := step.Observe, step.Apply
	step.Observe = func(ctx context.Context) (converge.Diff, error) {
		d, err := observe(ctx)
		if err != nil || d.Empty() { // a plugin that is complete came after the others had gone
			return d, err
		}
		err = eachOther(ctx, c.parts, c.members.Kube, func(old parts.Record) error {
			d = append(old.Diff(), d...)
			return nil
		})
		return d, err
	}
	step.Apply = func(ctx context.Context, d converge.Diff) error {
		if err := eachOther(ctx, c.parts, c.members.Kube, func(old parts.Record) error { return c.parts.RetirePart(ctx, old) }); err != nil {
			return err
		}
		return apply(ctx, d)
	}
	return step
}

// eachOther visits the parts that offer GPUs and that the cluster has in place of the device plugin.
func eachOther(ctx context.Context, cluster *parts.Steps, connect func(context.Context) (*kube.Client, error), visit func(parts.Record) error) error {
	for _, name := range []string{addon.GPUOperatorName, addon.DRADriverName} {
		old, err := cluster.RecordOf(ctx, name)
		if err == nil && old != nil && name == addon.DRADriverName {
			err = unheld(ctx, connect)
		}
		if err != nil {
			return err
		}
		if old != nil {
			if err := visit(*old); err != nil {
				return err
			}
		}
	}
	return nil
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
