package parts

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
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
			{Part: "a"}, {Part: "b", Needs: []string{"c"}}, {Part: "c", Needs: []string{"d"}}, {Part: "d"}, {Part: "e"}, {Part: "f", Needs: []string{"d", "a"}}, {Part: "nfs", Release: "nfs"}, {Part: "jupyterhub", Secrets: []kube.Ref{ref}},
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
		assert.Equal(t, []string{"b", "c", "e", "f", "a", "d"}, names(gone))
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
		kept, err := readRecord(ctx, client, "jupyterhub")
		require.NoError(t, err)
		assert.Equal(t, &Record{Part: "jupyterhub", Namespace: "hub", Secrets: []kube.Ref{ref}}, kept)
		r.Secrets = nil
		require.NoError(t, s.ReleaseToFleet(ctx, r))
		kept, err = readRecord(ctx, client, "jupyterhub")
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

// A part whose volumes are in use stays, and whose they are is said. Claims that go with another part, or with what
// owned them, do not count, and are waited for.
func TestVolumesThatHoldAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, _, _ := failing(t)
		s.Spec = &spec.Spec{}
		volume := func(class, name string, owner map[string]any) kube.Ref {
			claim := map[string]any{"namespace": "default", "name": name}
			modes, size := []any{"ReadWriteMany"}, map[string]any{"storage": "1Gi"}
			meta := map[string]any{"namespace": "default", "name": name}
			if owner != nil {
				meta["ownerReferences"] = []any{owner}
			}
			for _, o := range []map[string]any{
				{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": name}, "spec": map[string]any{
					"storageClassName": class, "claimRef": claim, "accessModes": modes, "capacity": size, "nfs": map[string]any{"server": "10.0.0.5", "path": "/"}}},
				{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": map[string]any{
					"storageClassName": class, "volumeName": name, "accessModes": modes, "resources": map[string]any{"requests": size}}},
			} {
				_, err := client.Apply(t.Context(), &unstructured.Unstructured{Object: o})
				require.NoError(t, err)
			}
			time.Sleep(time.Minute) // until it is bound
			return kube.Ref{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "default", Name: name}
		}
		r := recordOf(addon.Recipe{Via: spec.ViaFleet, Part: chart.Part{Name: "nfs", Classes: []string{"nfs", "fast"}, Secrets: []chart.Secret{{Name: "key"}}}})
		require.Empty(t, recordOf(addon.Recipe{Via: spec.ViaFleet, Part: chart.Part{Name: "nfs", Classes: []string{"nfs"}}}).Classes, "homelab removes nothing of it")
		volume("other", "other", nil)
		require.NoError(t, s.CheckUnused(t.Context(), client, r))
		its := volume("fast", "weights", nil)
		err := s.CheckUnused(t.Context(), client, r)
		require.ErrorAs(t, err, new(InUse))
		require.ErrorContains(t, err, "part nfs is no longer in the file but stays: volumes of nfs, fast are in use and could not be mounted without it: default/weights: move")
		require.NoError(t, s.CheckUnused(t.Context(), client, r, Record{Part: "models", Before: []kube.Ref{its}}), "it leaves before")
		require.Error(t, s.CheckUnused(t.Context(), client, r, Record{Part: "models", Keep: true, Before: []kube.Ref{its}}), "it is kept")

		database := kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "database"}
		_, err = client.Apply(t.Context(), objectOf(database))
		require.NoError(t, err)
		owner := objectOf(database)
		require.NoError(t, client.Get(t.Context(), owner))
		require.NoError(t, client.Delete(t.Context(), objectOf(its)))
		time.Sleep(time.Minute)
		require.NoError(t, s.CheckUnused(t.Context(), client, r))
		volume("nfs", "data", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "database", "uid": string(owner.GetUID()), "controller": true})
		require.ErrorContains(t, s.CheckUnused(t.Context(), client, r), "default/data")
		require.NoError(t, s.CheckUnused(t.Context(), client, r, Record{Part: "gateway", After: []kube.Ref{database}}))
		require.NoError(t, client.Delete(t.Context(), objectOf(database)))
		require.NoError(t, s.CheckUnused(t.Context(), client, r))
		require.NoError(t, s.RetirePart(t.Context(), r))
		left, err := boundClaims(t.Context(), client, r)
		require.NoError(t, err)
		assert.Empty(t, left, "it waits for the last claim")
	})
}
