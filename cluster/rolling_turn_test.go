package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nodes that went down together and did not come back may be tried again, together or one
// by one; nobody else goes down, nor does one of them along with another, before all are well.
func TestWhoMayGoDownAfterOneThatWentBadly(t *testing.T) {
	c := &Cluster{}
	ctx := run.Begin(t.Context())
	refuses := func(nodes ...string) error { return run.Of[unhealthy](ctx).refuses(nodes...) }
	require.NoError(t, refuses("gpu1"))
	c.noteUnhealthy(ctx, errors.New("no driver"), "gpu1", "gpu2")
	require.NoError(t, refuses("gpu1"))
	require.NoError(t, refuses("gpu2", "gpu1"))
	require.EqualError(t, refuses("gpu3"), "gpu3 stays up, because gpu1 and gpu2 did not become healthy: fix that first, then run it again")
	require.ErrorContains(t, refuses("gpu1", "gpu3"), "gpu3 stays up")

	c.noteUnhealthy(ctx, nil, "gpu1")
	require.ErrorContains(t, refuses("gpu1"), "because gpu2 did not become healthy")
	c.noteUnhealthy(ctx, nil, "gpu2", "gpu1")
	require.NoError(t, refuses("gpu3"))

	over, stop := context.WithCancel(ctx)
	stop() // who ends a run has seen nothing of a node
	c.noteUnhealthy(over, errors.New("cut off"), "gpu1")
	assert.NoError(t, refuses("gpu3"))
}
