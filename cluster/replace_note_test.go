package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A worker has no member of etcd that goes with it.
func TestReplaceSpeaksOfEtcdForServersOnly(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		c := w.cluster(t, spec)
		defer c.Close()
		for node, etcd := range map[string]bool{"cp2": true, "wk-gpu1": false} {
			g, err := c.NodeReplace(t.Context(), node, true)
			require.NoError(t, err)
			plan, err := g.Plan(t.Context())
			require.NoError(t, err)
			notes := ""
			for _, it := range plan.Items {
				if it.Step == "retire/"+node {
					notes = it.Diff.String() + it.Diff[0].Note
				}
			}
			assert.Contains(t, notes, "drained first")
			assert.Equal(t, etcd, strings.Contains(notes, "etcd"), notes)
		}
	})
}
