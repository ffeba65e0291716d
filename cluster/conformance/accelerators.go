package conformance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia"
)

const draGroup = "resource.k8s.io"

// dra reports whether DRA's API is served, and who uses it.
func (c *cluster) dra(ctx context.Context) (Finding, error) {
	v := c.version(draGroup, "ResourceSlice")
	if v == "" || c.version(draGroup, "DeviceClass") == "" {
		return Finding{Result: Failed, Evidence: []string{"the API server does not serve " + draGroup}, Do: "Kubernetes 1.34 and newer serve it without a setting: homelab k3s:upgrade"}, nil
	}
	f := Finding{Result: Passed, Evidence: []string{fmt.Sprintf("the API server serves %s/%s", draGroup, v)}}
	drivers, err := c.draDrivers(ctx)
	if err != nil {
		return Finding{}, err
	}
	classes, err := c.list(ctx, draGroup, "DeviceClass")
	if err != nil {
		return Finding{}, err
	}
	if len(drivers)+len(classes) == 0 {
		f.Evidence = append(f.Evidence, "no driver publishes devices by it")
		return f, nil
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("devices of %s", cmp.Or(some(drivers), "no driver")), fmt.Sprintf("device classes: %s", cmp.Or(some(namesOf(classes)), "none")))
	return f, nil
}

// draDrivers are those that publish devices.
func (c *cluster) draDrivers(ctx context.Context) ([]string, error) {
	slices, err := c.list(ctx, draGroup, "ResourceSlice")
	var out []string
	for _, s := range slices {
		name, _, _ := unstructured.NestedString(s.Object, "spec", "driver")
		out = append(out, name)
	}
	return out, err
}

func namesOf(list []unstructured.Unstructured) []string {
	var out []string
	for i := range list {
		out = append(out, path(&list[i]))
	}
	return out
}

// noGPUs is the finding of a cluster without accelerators.
func noGPUs() Finding {
	return Finding{Result: NotApplicable, Evidence: []string{"no node of the file has GPUs"}}
}

// drivers reads driver and container runtime on each node with GPUs.
func (c *cluster) drivers(ctx context.Context) (Finding, error) {
	all := c.Spec.GPUNodes()
	if len(all) == 0 {
		return noGPUs(), nil
	}
	f := Finding{Result: Passed}
	var seen []observation
	for _, n := range all {
		result, text := c.driver(ctx, n)
		if result != Passed && f.Result != Failed {
			f.Result = result
		}
		seen = append(seen, observation{n.Name, text})
	}
	f.Evidence = byText(seen)
	if f.Result != Passed {
		f.Do = "homelab cluster:doctor names the cause; homelab cluster:up brings driver and runtime to what the file says"
	}
	return f, nil
}

// driver reads driver and container runtime of a node.
func (c *cluster) driver(ctx context.Context, n spec.Node) (Result, string) {
	if c.HasDriver != nil && !c.HasDriver(n) {
		return Passed, "the driver is in a container of the GPU operator"
	}
	d, err := nvidia.ObserveDriver(ctx, c.Root(n.Name))
	switch {
	case err != nil:
		return NotShown, err.Error()
	case d.SMIError != nil:
		return Failed, "nvidia-smi: " + d.SMIError.Error()
	case d.Runtime == "":
		return Failed, "no nvidia-container-runtime"
	}
	return Passed, fmt.Sprintf("driver %s, nvidia-smi shows %d GPUs; %s", d.Loaded, len(d.GPUs()), d.Runtime)
}

// sharing compares what nodes offer with the cards that they have.
func (c *cluster) sharing(ctx context.Context) (Finding, error) {
	all := c.Spec.GPUNodes()
	if len(all) == 0 {
		return noGPUs(), nil
	}
	f := Finding{Result: NotShown, Do: "share the cards of a node: nvidia.sharing, or gpus.sharing of a node or pool (docs/sharing.md)"}
	var seen []observation
	for _, n := range all {
		if !n.GPUs.Sharing.Shared() && len(offer.Layouts(n)) == 0 {
			continue
		}
		node, err := c.kube.Node(ctx, n.Name)
		if err != nil {
			return Finding{}, err
		}
		offered := offer.GPUsOf(n)
		for _, name := range slices.Sorted(maps.Keys(offered.Resources)) {
			have, want := node.Count(name), offered.Resources[name]
			seen = append(seen, observation{n.Name, fmt.Sprintf("%d %s from %d cards (%s)", have, name, offered.Cards, n.GPUs.Sharing.Strategy)})
			switch {
			case have < int64(want):
				f.Result, f.Do = Failed, "homelab cluster:doctor names the cause"
			case f.Result == NotShown:
				f.Result, f.Do = Passed, ""
			}
		}
	}
	f.Evidence = byText(seen)
	if len(f.Evidence) == 0 {
		f.Evidence = []string{"all nodes offer whole cards"}
	}
	return f, nil
}

// virtual is what homelab does not do.
func (c *cluster) virtual(context.Context) (Finding, error) {
	if len(c.Spec.GPUNodes()) == 0 {
		return noGPUs(), nil
	}
	return Finding{Result: Failed, Evidence: []string{"homelab passes whole cards through to machines, and sets up no vGPUs (docs/gpus.md)"},
		Do: "with NVIDIA's licence, make the VM yourself and let it join as an external machine"}, nil
}
