package parts

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// What has ended holds nothing; what waits or runs is named.
func TestWhatHoldsAQueue(t *testing.T) {
	load := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Admitted", "status": "True"}}}}}
	assert.False(t, finished(load))
	load.Object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Finished", "status": "True"}}
	assert.True(t, finished(load))
	assert.False(t, anyOwned([]unstructured.Unstructured{*load}))
	load.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "homelab"})
	assert.True(t, anyOwned([]unstructured.Unstructured{*load}))
}

// A cluster in which Kueue's kinds never were, or are gone, holds nothing up.
func TestQueuesWithoutKueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, _, _ := failing(t)
		ctx := t.Context()
		for _, part := range []string{"kueue", "velero"} {
			require.NoError(t, s.CheckUnused(ctx, client, Record{Part: part}))
			require.NoError(t, s.waitQueuesReleased(ctx, client, Record{Part: part}))
		}
		require.NoError(t, s.RetirePart(ctx, Record{Part: "kueue", Namespace: "kueue-system", Release: "kueue",
			After: []kube.Ref{{APIVersion: "kueue.x-k8s.io/v1beta2", Kind: "ClusterQueue", Name: "students"}}}))
	})
}

// Models are in a queue for as long as they run: in the run in which Kueue leaves, they have left it before.
func TestModelsHoldNoQueue(t *testing.T) {
	load := func(namespace, owner string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": map[string]any{"namespace": namespace, "name": owner,
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner}}}}}
	}
	all := []unstructured.Unstructured{*load("models", "qwen"), *load("course", "train")}
	assert.Equal(t, []string{"pod course/train"}, holders(all))
}
