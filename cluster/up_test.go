package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

func TestUpFromNothingToGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))

		before, beforeKube := len(w.mutations()), len(w.kubeMutations())
		report := w.up(t, spec)
		assert.Zero(t, report.Count(converge.Changed))
		assert.Empty(t, w.mutations()[before:])
		assert.Empty(t, w.kubeMutations()[beforeKube:])
	})
}

// A node that gets its taints after it is Ready takes pods in between that it
// should keep away.
func TestANodeIsNeverWithoutItsTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		spec := parse(t, example(t, "one-gpu"))
		ctx, cancel := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		watch.Go(func() { w.watchNode(ctx, t, "gpu1") })
		w.up(t, spec)
		cancel()
		watch.Wait()
	})
}

// watchNode looks at a node of the GPU pool from the first moment that it is there.
func (w *world) watchNode(ctx context.Context, t *testing.T, name string) {
	var client *kube.Client
	seen := 0
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			assert.NotZero(t, seen, "nobody saw %s", name)
			return
		case <-tick.C:
		}
		if _, err := os.Stat(filepath.Join(w.dir, "kubeconfig")); client == nil && err == nil {
			client = w.api(t)
		}
		if client == nil {
			continue
		}
		n, err := client.Node(ctx, name)
		if err != nil {
			continue
		}
		seen++
		if len(n.Taints) == 0 || n.Labels[nvidia.LabelPresent] != "true" {
			t.Errorf("%s is there with the taints %v and the labels %v", name, n.Taints, n.Labels)
			return
		}
	}
}
