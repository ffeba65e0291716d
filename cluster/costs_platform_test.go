package cluster

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/kube/chart"
)

// A claim that a release no longer has, and a part in whose place it comes, are destroyed,
// and that is said also where nobody can say what is in them.
func TestCostsOfClaimsAndReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec, err := clusterfile.Parse("cluster.yaml", []byte("name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}}\n"))
		require.NoError(t, err)
		c, err := New(spec, Backend{Dir: t.TempDir(), Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") }})
		require.NoError(t, err)
		defer c.Close()
		out := c.costsOfChart(run.Begin(t.Context()), chartSeen{part: platform.Piece{Part: chart.Part{Name: "cilium-pool"}, Replaces: []string{"metallb"}}}, drift.Diff{
			{Path: "service/hub/proxy", Effect: drift.Remove},
			{Path: "persistentvolumeclaim/hub/kept", Effect: drift.Update},
			{Path: "persistentvolumeclaim/hub/db", Effect: drift.Remove},
			{Path: "service/hub/api", Effect: drift.Remove},
			{Path: "persistentvolumeclaim/hub/homes", Effect: drift.Remove},
		})
		require.Len(t, out, 3)
		for i, name := range []string{"hub/db", "hub/homes", "metallb"} {
			assert.Equal(t, name, out[i].Machine)
			assert.Equal(t, converge.Destroys, out[i].Kind)
		}
		assert.Equal(t, "cilium-pool replaces it", out[2].Why)
		assert.Contains(t, out[2].Holds[0], "cannot find out which data goes with it: ")
	})
}
