package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestACacheOfPackages: what stands before the archive's mirror for http refuses https,
// which NVIDIA's repository wants.
func TestACacheOfPackages(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, small+"guest: {apt: {proxy: 'http://10.0.0.30:3142'}}\n")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}
