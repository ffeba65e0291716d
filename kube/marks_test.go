package kube_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
)

func TestMarkGivesTakesAndLeavesAlone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		diff := func(m kube.Marks) string {
			n, err := w.Node(t.Context(), "wk1")
			require.NoError(t, err)
			return m.Diff(n).String()
		}
		taint := kube.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}
		first := kube.Marks{Labels: map[string]string{"pool": "gpu", "zone": "a"}, Taints: []kube.Taint{taint}}
		assert.Equal(t, "label/pool: gpu; label/zone: a; taint/nvidia.com/gpu: nvidia.com/gpu=present:NoSchedule", diff(first))
		require.NoError(t, w.Mark(t.Context(), "wk1", first))
		assert.Empty(t, diff(first))

		// Somebody else's label and Kubernetes' own taint come in between.
		require.NoError(t, w.Cordon(t.Context(), "wk1"))
		w.sim.Leave("wk1")
		sleepMinute()
		second := kube.Marks{Labels: map[string]string{"pool": "cpu"}}
		assert.Equal(t, "label/pool: gpu → cpu; label/zone: a → (none); taint/nvidia.com/gpu: nvidia.com/gpu=present:NoSchedule → (none)", diff(second))
		require.NoError(t, w.Mark(t.Context(), "wk1", second))
		n, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.Equal(t, "cpu", n.Labels["pool"])
		assert.NotContains(t, n.Labels, "zone")
		assert.Equal(t, "wk1", n.Labels["kubernetes.io/hostname"])
		assert.Equal(t, []kube.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}, {Key: "node.kubernetes.io/unreachable", Effect: "NoSchedule"},
			{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"}}, n.Taints)
		assert.True(t, n.Cordoned)

		require.NoError(t, w.Mark(t.Context(), "wk1", kube.Marks{}))
		assert.Empty(t, diff(kube.Marks{}))
		n, err = w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.Empty(t, n.OwnedLabels)
		assert.NotContains(t, n.Labels, "pool")
	})
}

func TestMarkTakesOverWhatIsThere(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		n := worker("wk1", 0, 0)
		n.Labels, n.Taints = map[string]string{"pool": "gpu"}, []string{"nvidia.com/gpu=present:NoSchedule"}
		w.join(t, n)
		m := kube.Marks{Labels: map[string]string{"pool": "gpu"}, Taints: []kube.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}}}
		node, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.Empty(t, m.Diff(node))
		assert.Equal(t, []string{"label/pool", "taint/nvidia.com/gpu"}, m.MissingRecord(node))
		require.NoError(t, w.Mark(t.Context(), "wk1", m))
		node, err = w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.Empty(t, m.Diff(node))
		assert.Empty(t, m.MissingRecord(node))
		assert.Len(t, node.Taints, 2, "ours, and that of a node that is not ready yet")
	})
}

func TestMarksCheck(t *testing.T) {
	for want, m := range map[string]kube.Marks{
		"label kubernetes.io/hostname: the kubelet sets it":        {Labels: map[string]string{"kubernetes.io/hostname": "x"}},
		"label node-role.kubernetes.io/control-plane: K3s sets it": {Labels: map[string]string{"node-role.kubernetes.io/control-plane": "true"}},
		"label pool=a b: a valid label must":                       {Labels: map[string]string{"pool": "a b"}},
		`effect "NoSched": write NoSchedule`:                       {Taints: []kube.Taint{{Key: "a", Effect: "NoSched"}}},
		"taint a:NoSchedule: a taint with this key":                {Taints: []kube.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Value: "", Effect: "NoSchedule"}}},
		"Kubernetes sets and clears those of node.kubernetes.io/":  {Taints: []kube.Taint{{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}}},
	} {
		assert.ErrorContains(t, m.Check(), want)
	}
	assert.NoError(t, kube.Marks{Labels: map[string]string{"node-role.kubernetes.io/worker": "true", "nvidia.com/gpu.present": "true"}}.Check())
}

// TestWhoseLabelsAre: those that somebody sets again are nobody else's, all others are free.
func TestWhoseLabelsAre(t *testing.T) {
	for label, who := range map[string]string{
		"kubernetes.io/hostname": "the kubelet", "kubernetes.io/arch": "the kubelet", "kubernetes.io/os": "the kubelet", "beta.kubernetes.io/arch": "the kubelet", "beta.kubernetes.io/x": "the kubelet",
		"node-role.kubernetes.io/control-plane": "K3s", "node-role.kubernetes.io/master": "K3s", "node-role.kubernetes.io/etcd": "K3s",
		"k3s.io/hostname": "K3s", "plan.k3s.io/x": "K3s", "p2p.k3s.cattle.io/enabled": "K3s", "k3s.cattle.io/x": "K3s",
		"kubernetes.io/x": "", "x.io/hostname": "", "x.io/etcd": "", "node-role.kubernetes.io/worker": "", "hostname": "", "etcd": "", "cattle.io/x": "",
	} {
		err := kube.Marks{Labels: map[string]string{label: "x"}}.Check()
		if who == "" {
			assert.NoError(t, err, label)
			continue
		}
		assert.EqualError(t, err, "label "+label+": "+who+" sets it and would overwrite the change")
	}
	for key, free := range map[string]bool{"node.kubernetes.io/x": false, "node.cloudprovider.kubernetes.io/x": false, "x.io/node": true, "node": true} {
		err := kube.Marks{Taints: []kube.Taint{{Key: key, Effect: "NoExecute"}}}.Check()
		assert.Equal(t, free, err == nil, key)
	}
	for _, effect := range []string{"NoSchedule", "PreferNoSchedule", "NoExecute"} {
		assert.NoError(t, kube.Marks{Taints: []kube.Taint{{Key: "a", Value: "b", Effect: effect}}}.Check())
	}
}

// TestMarksAgainstANode: what is missing, other, another's, or ours and no longer asked for.
func TestMarksAgainstANode(t *testing.T) {
	n := kube.Node{Labels: map[string]string{"same": "1", "other": "1", "theirs": "1", "mine": "", "empty": ""}, OwnedLabels: []string{"mine", "same", "lost"},
		Taints:      []kube.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "b", Effect: "NoSchedule"}, {Key: "c", Effect: "NoExecute"}, {Key: "d", Value: "v", Effect: "NoSchedule"}},
		OwnedTaints: []string{"a:NoSchedule", "d:NoSchedule", "gone:NoExecute"}}
	m := kube.Marks{Labels: map[string]string{"same": "1", "other": "2", "theirs": "1", "new": "", "empty": "x"},
		Taints: []kube.Taint{{Key: "a", Value: "2", Effect: "NoSchedule"}, {Key: "b", Effect: "NoSchedule"}, {Key: "c", Effect: "NoSchedule"}}}
	assert.Equal(t, `label/empty: "" → x; label/new: ""; label/other: 1 → 2; label/mine: "" → (none); label/lost: "" → (none); `+
		"taint/a: a=1:NoSchedule → a=2:NoSchedule; taint/c: c:NoSchedule; taint/d: d=v:NoSchedule → (none); taint/gone: gone:NoExecute → (none)", m.Diff(n).String())
	assert.Equal(t, []string{"label/theirs", "taint/b"}, m.MissingRecord(n), "those that differ are set, not found")
}
