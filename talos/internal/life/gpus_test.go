package life_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
)

// A worker with a card computes on it.
func TestGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.file(t, cp1+"  gpu1: {role: agent, address: 10.0.0.21, gpus: 1}\n")
		w.up(t, s)
		assert.Empty(t, w.plan(t, s))
		c := w.cluster(t, s)
		defer c.Close()
		g, v := c.GPUVerify(cluster.VerifyQuick, 0)
		w.run(t, g)
		require.NoError(t, v.Clean(t.Context()))
		require.Len(t, v.Results(), 1)
		assert.True(t, v.Results()[0].Passed)
		assert.Equal(t, "595.71.05", v.Results()[0].Driver)
	})
}

// A machine that was made without a card gets one: its image has no driver, so it installs another one.
func TestACardLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.up(t, w.file(t, cp1+w2))
		s := w.file(t, cp1+strings.Replace(w2, "}", ", gpus: 1}", 1))
		assert.Contains(t, w.up(t, s), "talos/w2")
		assert.Empty(t, w.plan(t, s))
		assert.Equal(t, 3, w.net.Machine("10.0.0.22").Boots(), "once with its card, and once with its driver")
	})
}
