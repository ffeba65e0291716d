package cluster

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/spec"
)

// GPUs of external machines are none of Proxmox's.
func TestWhoWantsGPUs(t *testing.T) {
	for want, nodes := range map[bool][]spec.Node{
		true:  {{Name: "cp1"}, {Name: "a", GPUs: spec.GPURequest{Count: 1}}},
		false: {{Name: "cp1"}, {Name: "x", External: true, GPUs: spec.GPURequest{Count: 1}}},
	} {
		assert.Equal(t, want, wantsGPUs((&spec.Spec{Nodes: nodes})))
	}
}

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

// Storage classes cannot be changed and are made anew; what was not applied for them is
// applied then.
func TestStorageClassesAreMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sim, _ := thorny(t, thornsFile)
		ctx := run.Begin(t.Context())
		client, err := c.kube(ctx)
		require.NoError(t, err)
		class := func(of string) *storagev1.StorageClass {
			return &storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: of}
		}
		settings := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}, Data: map[string]string{"a": "b"}}
		require.NoError(t, applyClasses(ctx, client, []runtime.Object{class("one"), settings}, errors.New("why")))
		got := &corev1.ConfigMap{TypeMeta: settings.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}}
		require.NoError(t, client.Get(ctx, got))
		assert.Equal(t, "b", got.Data["a"])
		require.EqualError(t, applyClasses(ctx, client, []runtime.Object{settings}, errors.New("why")), "why", "no class was in its way")
		_ = sim.Close()
		synctest.Wait()
	})
}
