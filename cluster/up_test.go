package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
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
