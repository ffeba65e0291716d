package members

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A node that went down and did not come back may be tried again; nobody else goes down before it is
// well.
func TestWhoMayGoDownAfterOneThatWentBadly(t *testing.T) {
	ms := New(Config{})
	ctx := t.Context()
	refuses := ms.CheckNoneBroken
	require.NoError(t, refuses("gpu1"))
	ms.noteUnhealthy(ctx, errors.New("no driver"), "gpu1")
	ms.noteUnhealthy(ctx, errors.New("no driver"), "gpu2")
	require.NoError(t, refuses("gpu1"))
	require.EqualError(t, refuses("gpu3"), "gpu3 stays up, because gpu1 and gpu2 did not become healthy: fix that first, then run it again")

	ms.noteUnhealthy(ctx, nil, "gpu1")
	require.ErrorContains(t, refuses("gpu1"), "because gpu2 did not become healthy")
	ms.noteUnhealthy(ctx, nil, "gpu2")
	require.NoError(t, refuses("gpu3"))

	over, stop := context.WithCancel(ctx)
	stop() // who ends a run has seen nothing of a node
	ms.noteUnhealthy(over, errors.New("cut off"), "gpu1")
	assert.NoError(t, refuses("gpu3"))
}

// New taints with NoExecute end what runs on a node; others, and those that are there, do
// not. A node that is not there has nothing to lose.
func TestCostsOfTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec, err := clusterfile.Parse("cluster.yaml", []byte("name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}}\n"))
		require.NoError(t, err)
		c := New(Config{Spec: spec, Distribution: &another{spec: spec}, Nodes: nodes.New(nodes.Config{
			Spec: spec, Hosts: ssh.NewKnownHosts(filepath.Join(t.TempDir(), "known_hosts")),
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") },
		})})
		ctx := t.Context()
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
				assert.Contains(t, out[i].Reason, taint)
				assert.Contains(t, out[i].Users[0].Text, "cannot find out whose work ends")
			}
		}
	})
}

// What a node shares its GPUs as is called so, and has a plugin of its own.
func TestNamesOfSharing(t *testing.T) {
	own := &spec.Spec{NVIDIA: spec.NVIDIA{Sharing: spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 4}}}
	node := func(s spec.Sharing) spec.Node { return spec.Node{GPUs: spec.GPURequest{Count: 2, Sharing: s}} }
	layout := func(gpus ...int) []spec.MIGLayout {
		return []spec.MIGLayout{{GPUs: gpus, Profiles: map[string]int{"3g.20gb": 2}}}
	}
	for want, s := range map[string]spec.Sharing{
		asCluster: {Strategy: spec.SharingTimeSlicing, Replicas: 4}, "time-slicing-2": {Strategy: spec.SharingTimeSlicing, Replicas: 2},
		"mps-4": {Strategy: spec.SharingMPS, Replicas: 4}, "none": {Strategy: spec.SharingNone}, "mps": {Strategy: spec.SharingMPS, Replicas: 1},
		"mig-single": {Strategy: spec.SharingMIG, Layouts: layout()}, "mig-mixed": {Strategy: spec.SharingMIG, Layouts: layout(1)},
	} {
		assert.Equal(t, want, sharingName(own, node(s)))
	}
	mps := pluginOptions(own, node(spec.Sharing{Strategy: spec.SharingMPS, Replicas: 3}))
	assert.Equal(t, spec.SharingMPS, mps.Sharing)
	assert.Equal(t, nvidia.PluginName+"-mps-3", mps.Name)
	assert.Empty(t, pluginOptions(own, node(own.NVIDIA.Sharing)).Name)
	single := pluginOptions(own, node(spec.Sharing{Strategy: spec.SharingMIG, Layouts: layout()}))
	assert.Equal(t, nvidia.MIGSingle, single.MIG)
	assert.Equal(t, nvidia.PluginName+"-mig-single", single.Name)

	// Where the whole cluster divides its GPUs, the plugin of nodes that do not yet keeps them whole.
	own.NVIDIA.Sharing = spec.Sharing{Strategy: spec.SharingMIG, Layouts: layout()}
	assert.Equal(t, "mig-single", sharingName(own, node(own.NVIDIA.Sharing)))
	assert.Equal(t, asCluster, sharingName(own, node(spec.Sharing{Strategy: spec.SharingNone})))
	assert.Empty(t, pluginOptions(own, node(spec.Sharing{})).MIG)
}

// No object of the plugins of several ways of sharing is written twice.
func TestObjectsOfPlugins(t *testing.T) {
	s := &spec.Spec{Nodes: []spec.Node{{Name: "a", GPUs: spec.GPURequest{Count: 1, Sharing: spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 2}}},
		{Name: "b", GPUs: spec.GPURequest{Count: 1}}}}
	all, err := PluginObjects(s)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, o := range all {
		b, err := json.Marshal(o)
		require.NoError(t, err)
		assert.False(t, seen[string(b)], "%s", b)
		seen[string(b)] = true
	}
	assert.Greater(t, len(seen), 4)
}

// A node that has just joined got its labels from its K3s: they are no news. Those by another's hand are.
func TestNodeStepSaysWhatItChanges(t *testing.T) {
	spec, err := clusterfile.Parse("cluster.yaml", []byte("name: x\nk3s: {version: v1.36.5+k3s1}\nnodes: {a: {role: server, external: ops@10.0.0.40, labels: {a: '1', b: '2', c: '3', d: '4'}}}\n"))
	require.NoError(t, err)
	all := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
	for want, n := range map[string]kube.Node{
		"status: not ready: no network → Ready":                            {Labels: all, Reason: "no network"},
		"label/c: 3; label/d: 4":                                           {Labels: map[string]string{"a": "1", "b": "2"}, Ready: true},
		"joined, with its labels and taints":                               {Labels: all, Ready: true},
		"label/c: 3; label/b, label/d [exists already; owned from now on]": {Labels: map[string]string{"a": "1", "b": "2", "d": "4"}, OwnedLabels: []string{"a"}, Ready: true},
		"3 labels and taints [exist already; owned from now on]":           {Labels: all, OwnedLabels: []string{"a"}, Ready: true},
		"": {Labels: all, OwnedLabels: []string{"a", "b", "c", "d"}, Ready: true},
	} {
		n.Version = "v1.36.5+k3s1"
		assert.Equal(t, want, New(Config{Spec: spec}).NodeStep(spec.Nodes[0]).Diff(&n).String())
	}
}
