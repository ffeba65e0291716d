package parts

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// What the cluster remembers of parts and the file does not name goes, what needs others first;
// what is Fleet's now and was applied is handed over.
func TestPartsThatAreRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, _, _ := failing(t)
		ctx := t.Context()
		ref := kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "x"}
		for _, r := range []Record{
			{Part: "a"}, {Part: "b", Needs: []string{"c"}}, {Part: "c", Needs: []string{"d"}}, {Part: "d"}, {Part: "nfs", Release: "nfs"}, {Part: "jupyterhub", Secrets: []kube.Ref{ref}},
		} {
			_, err := client.Apply(ctx, r.Object())
			require.NoError(t, err)
		}
		names := func(all []Record) (out []string) {
			for _, r := range all {
				out = append(out, r.Part)
			}
			return out
		}
		gone, given, err := s.RetiredParts(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c", "d"}, names(gone))
		assert.Empty(t, given, "Fleet's part has nothing but its Secrets of us")
		for _, r := range []Record{{Part: "jupyterhub", Release: "hub"}, {Part: "jupyterhub", Before: []kube.Ref{ref}}, {Part: "jupyterhub", After: []kube.Ref{ref}}} {
			_, err := client.Apply(ctx, r.Object())
			require.NoError(t, err)
			_, given, err = s.RetiredParts(ctx)
			require.NoError(t, err)
			assert.Equal(t, []string{"jupyterhub"}, names(given))
		}
		r := Record{Part: "jupyterhub", Release: "hub", After: []kube.Ref{ref}, Secrets: []kube.Ref{ref}, Namespace: "hub"}
		require.NoError(t, s.ReleaseToFleet(ctx, r))
		kept, err := s.readRecord(ctx, client, "jupyterhub")
		require.NoError(t, err)
		assert.Equal(t, &Record{Part: "jupyterhub", Namespace: "hub", Secrets: []kube.Ref{ref}}, kept)
		r.Secrets = nil
		require.NoError(t, s.ReleaseToFleet(ctx, r))
		kept, err = s.readRecord(ctx, client, "jupyterhub")
		require.NoError(t, err)
		assert.Nil(t, kept)

		cm := Record{Part: "a"}.Object()
		cm.Data[recordKey] = "{"
		_, err = client.Apply(ctx, cm)
		require.NoError(t, err)
		for _, look := range []func() error{
			func() error { _, _, err := s.RetiredParts(ctx); return err }, func() error { return s.enter(ctx, client, addon.Recipe{Part: chart.Part{Name: "a"}}) },
			func() error {
				return s.closeRecord(ctx, client, addon.Recipe{Part: chart.Part{Name: "a"}})
			},
			func() error { return s.supersede(ctx, addon.Recipe{Replaces: []string{"a"}}) },
			func() error {
				_, err := s.recordDiff(ctx, client, addon.Recipe{Part: chart.Part{Name: "a"}})
				return err
			},
		} {
			assert.ErrorContains(t, look(), "configmap kube-system/homelab-part-a: ")
		}
	})
}

// A part whose volumes are in use stays, and whose they are is said.
func TestVolumesThatHoldAPart(t *testing.T) {
	volume := func(class, phase, claim string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"storageClassName": class, "claimRef": map[string]any{"namespace": "hub", "name": claim}}, "status": map[string]any{"phase": phase},
		}}
	}
	r := Record{Part: "nfs", Classes: []string{"nfs", "fast"}}
	require.NoError(t, r.boundClaimsError(nil))
	require.NoError(t, r.boundClaimsError([]unstructured.Unstructured{volume("other", "Bound", "a"), volume("nfs", "Released", "b"), volume("fast", "Available", "c")}))
	var all []unstructured.Unstructured
	for i := range 6 {
		all = append(all, volume("other", "Bound", "x"), volume([]string{"nfs", "fast"}[i%2], "Bound", fmt.Sprint("c", i)))
	}
	for n, want := range map[int]string{2: "hub/c0: move", 10: "hub/c0, hub/c1, hub/c2, hub/c3, hub/c4: move", 12: "hub/c0, hub/c1, hub/c2, hub/c3, hub/c4 and 1 more: move"} {
		err := r.boundClaimsError(all[:n])
		require.ErrorAs(t, err, new(InUse))
		assert.ErrorContains(t, err, "part nfs is no longer in the file but stays: volumes of nfs, fast are in use and could not be mounted without it: "+want)
	}
}
