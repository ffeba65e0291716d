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
	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/kube"
)

// New taints with NoExecute end what runs on a node; others, and those that are there, do
// not. A node that is not there has nothing to lose.
func TestCostsOfTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec, err := clusterfile.Parse("cluster.yaml", []byte("name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}}\n"))
		require.NoError(t, err)
		c, err := New(spec, Backend{Dir: t.TempDir(), Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") }})
		require.NoError(t, err)
		defer c.Close()
		ctx := run.Begin(t.Context())
		hard, soft, other := kube.Taint{Key: "k", Effect: "NoExecute"}, kube.Taint{Key: "k", Effect: "NoSchedule"}, kube.Taint{Key: "other", Effect: "NoExecute"}
		for _, tt := range []struct {
			have *kube.Node
			want []kube.Taint
			ends []string
		}{
			{nil, []kube.Taint{hard}, nil},
			{&kube.Node{}, nil, nil},
			{&kube.Node{}, []kube.Taint{soft}, nil},
			{&kube.Node{}, []kube.Taint{hard}, []string{hard.String()}},
			{&kube.Node{Taints: []kube.Taint{hard}}, []kube.Taint{hard}, nil},
			{&kube.Node{Taints: []kube.Taint{soft}}, []kube.Taint{soft, hard}, []string{hard.String()}},
			{&kube.Node{Taints: []kube.Taint{hard}}, []kube.Taint{hard, soft, other}, []string{other.String()}},
		} {
			out := c.costsOfMarks(spec.Nodes[0], kube.Marks{Taints: tt.want})(ctx, tt.have, nil)
			require.Len(t, out, len(tt.ends), "%+v", tt)
			for i, taint := range tt.ends {
				assert.Contains(t, out[i].Why, taint)
				assert.Contains(t, out[i].Users[0], "cannot find out whose work ends")
			}
		}
	})
}
