package parts

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// The operator stays while there is a database of anyone's, and goes where there is none; its plugin stays while a
// database writes by it that this run does not change.
func TestDatabasesHoldTheirOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, _, _ := failing(t)
		s.Spec = &spec.Spec{}
		r, plugin := Record{Part: addon.PostgresName, Keep: true}, Record{Part: addon.PostgresBackupName, Keep: true}
		unused := func() {
			t.Helper()
			require.NoError(t, s.CheckUnused(t.Context(), client, r))
			require.NoError(t, s.CheckUnused(t.Context(), client, plugin))
		}
		unused() // its kinds were never there
		text, err := os.ReadFile("../../../sim/lab/charts/cloudnative-pg/templates/crds.yaml")
		require.NoError(t, err)
		kind := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(text, &kind.Object))
		_, err = client.Apply(t.Context(), kind)
		require.NoError(t, err)
		unused()
		database := func(name string, labels map[string]any, plugins ...any) {
			t.Helper()
			_, err = client.Apply(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": addon.PostgresAPI, "kind": addon.PostgresKind,
				"metadata": map[string]any{"namespace": "default", "name": name, "labels": labels}, "spec": map[string]any{"instances": int64(1), "plugins": plugins}}})
			require.NoError(t, err)
		}
		database("theirs", nil, map[string]any{"name": addon.PostgresPlugin, "enabled": false})
		err = s.CheckUnused(t.Context(), client, r)
		require.ErrorAs(t, err, new(InUse))
		assert.ErrorContains(t, err, "default/theirs")
		its := kube.Ref{APIVersion: addon.PostgresAPI, Kind: addon.PostgresKind, Namespace: "default", Name: "theirs"}
		require.NoError(t, s.CheckUnused(t.Context(), client, r, Record{Part: addon.ModelGatewayName, After: []kube.Ref{its}}), "it leaves before the operator")
		require.ErrorAs(t, s.CheckUnused(t.Context(), client, r, Record{Part: addon.PostgresName, After: []kube.Ref{its}}), new(InUse), "the operator's own removal would lose it")
		require.NoError(t, s.CheckUnused(t.Context(), client, plugin))

		database("ours", map[string]any{"app.kubernetes.io/managed-by": "homelab"}, map[string]any{"name": addon.PostgresPlugin})
		err = s.CheckUnused(t.Context(), client, plugin)
		require.ErrorAs(t, err, new(InUse), "the operator stays too")
		assert.ErrorContains(t, err, ": default/ours: add postgres.backup")
		s.Spec.Platform.Postgres = &spec.Postgres{}
		require.NoError(t, s.CheckUnused(t.Context(), client, plugin), "this run removes it from the database first")
		database("theirs", nil, map[string]any{"name": "another"}, map[string]any{"name": addon.PostgresPlugin})
		require.ErrorContains(t, s.CheckUnused(t.Context(), client, plugin), ": default/theirs: add postgres.backup")
	})
}

// A database that left the file is a cost, also where nobody can say what it holds.
func TestCostOfADatabase(t *testing.T) {
	away := errors.New("no way there")
	s := New(Config{Work: func(context.Context) (*workload.Work, error) { return nil, away }})
	out := s.costsOfClaims(t.Context(), converge.Diff{
		{Path: "cluster/databases/kept", Effect: converge.Update},
		{Path: "cluster/databases/hub", Effect: converge.Remove},
	})
	require.Len(t, out, 1)
	assert.Equal(t, "databases/hub", out[0].Machine)
	assert.Equal(t, converge.CostDestroy, out[0].Kind)
	assert.True(t, out[0].Holds[0].Unknown)
	s = New(Config{Work: func(context.Context) (*workload.Work, error) { return &workload.Work{}, nil }})
	require.Len(t, s.costsOfClaims(t.Context(), converge.Diff{{Path: "cluster/databases/hub", Effect: converge.Remove}}), 1, "it ends, whatever becomes of its volumes")
}
