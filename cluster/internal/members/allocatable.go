package members

import (
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/spec"
)

// HasDriver reports whether this cluster manages a node's driver.
func (ms *Members) HasDriver(n spec.Node) bool {
	return n.GPUs.Count > 0 && templates.InstallsDriver(ms.Spec) && ms.Spec.NVIDIA.Stack != spec.StackNone
}

// HasPlugin reports whether this cluster makes GPUs allocatable.
func (ms *Members) HasPlugin() bool {
	return len(ms.Spec.GPUNodes()) > 0 && (ms.Spec.NVIDIA.Stack == spec.StackDevicePlugin || ms.Spec.NVIDIA.Stack == spec.StackOperator)
}

// offerTime is how long it may take until a device plugin offers a node's GPUs. The operator's pods
// wait for each other: discovery of features, validation, plugin.
func (ms *Members) offerTime() time.Duration {
	if ms.Spec.NVIDIA.Stack == spec.StackOperator {
		return 3 * ReadyTime
	}
	return ReadyTime
}

// AllocatableStep waits until Kubernetes can allocate all of a node's GPUs.
func (ms *Members) AllocatableStep(n spec.Node) *converge.Resource[int64] {
	want := ms.allocatable(n)
	return &converge.Resource[int64]{
		ID: "allocatable/" + n.Name,
		Observe: func(ctx context.Context) (int64, error) {
			have, err := ms.ObserveNode(ctx, n.Name)
			if err != nil || have == nil {
				return 0, err
			}
			return have.Count(string(nvidia.Resource)), nil
		},
		Diff: func(have int64) drift.Diff {
			if have == want {
				return nil
			}
			return drift.Diff{{
				Path: "GPUs", Have: fmt.Sprint(have), Want: fmt.Sprintf("%d allocatable", want), Effect: drift.Create,
				Note: "driver, container toolkit and device plugin must all be in place",
			}}
		},
		Settle: ms.offerTime(),
		Poll:   run.LookEvery,
	}
}

// allocatable is how many GPUs a node offers: its cards, times the number of pods that
// share one.
func (ms *Members) allocatable(n spec.Node) int64 {
	count := int64(n.GPUs.Count)
	if n.GPUs.Sharing.Shared() {
		count *= int64(max(1, n.GPUs.Sharing.Replicas))
	}
	return count
}
