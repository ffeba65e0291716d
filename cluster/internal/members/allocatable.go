package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
)

// HasDriver reports whether this cluster manages a node's driver.
func (ks *Kubernetes) HasDriver(n spec.Node) bool {
	return n.HasGPUs() && ks.Spec.InstallsDriver() && ks.Spec.NVIDIA.Stack != spec.StackNone
}

// HasPlugin reports whether this cluster makes GPUs allocatable.
func (ks *Kubernetes) HasPlugin() bool {
	stacks := []string{spec.StackDevicePlugin, spec.StackOperator, spec.StackDRA}
	return len(ks.Spec.GPUNodes()) > 0 && slices.Contains(stacks, ks.Spec.NVIDIA.Stack)
}

// offerTime is how long it may take until a device plugin offers a node's GPUs. The operator's pods
// wait for each other: discovery of features, validation, plugin.
func (ks *Kubernetes) offerTime() time.Duration {
	if ks.Spec.NVIDIA.Stack == spec.StackOperator {
		return 3 * ReadyTime
	}
	return ReadyTime
}

// AllocatableStep waits until Kubernetes can allocate all of a node's GPUs, as many as the file
// makes of them.
func (gs *GPUs) AllocatableStep(n spec.Node) *converge.Resource[map[string]int64] {
	want := offer.GPUsOf(n).Resources
	return &converge.Resource[map[string]int64]{
		ID: "allocatable/" + n.Name,
		Observe: func(ctx context.Context) (map[string]int64, error) {
			have, err := gs.ObserveNode(ctx, n.Name)
			if err != nil || have == nil {
				return nil, err
			}
			return offeredGPUs(have), nil
		},
		Diff:   func(have map[string]int64) converge.Diff { return diffOffered(have, want, offeredBy(gs.Spec)) },
		Settle: gs.offerTime(),
		Poll:   run.PollInterval,
	}
}

// offeredGPUs is what a node offers of its GPUs.
func offeredGPUs(n *kube.Node) map[string]int64 {
	out := n.Counts(nvidia.MIGResource(""))
	if count := n.Count(nvidia.Resource); count > 0 {
		out[nvidia.Resource] = count
	}
	return out
}

// offeredBy is what tells Kubernetes of the GPUs.
func offeredBy(of *spec.Spec) string {
	if of.NVIDIA.Stack == spec.StackDRA {
		return "DRA driver"
	}
	return "device plugin"
}

func diffOffered(have map[string]int64, want map[string]int, by string) converge.Diff {
	var d converge.Diff
	names := slices.AppendSeq(slices.Collect(maps.Keys(have)), maps.Keys(want))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if have[name] == int64(want[name]) {
			continue
		}
		path := "GPUs"
		if name != nvidia.Resource {
			path = name
		}
		d = append(d, converge.Field{
			Path: path, Have: fmt.Sprint(have[name]), Want: fmt.Sprintf("%d allocatable", want[name]), Effect: converge.Create,
			Note: "driver, container toolkit and " + by + " must all be in place",
		})
	}
	return d
}
