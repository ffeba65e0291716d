package parts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// A claim that a release no longer has, and a part in whose place it comes, are destroyed,
// and that is said also where nobody can say what is in them.
func TestCostsOfClaimsAndReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("no way there")
		s := New(Config{Kube: func(context.Context) (*kube.Client, error) { return nil, away }, Work: func(context.Context) (*workload.Work, error) { return nil, away }})
		out := s.costsOfChart(t.Context(), chartState{part: addon.Recipe{Part: chart.Part{Name: "cilium-pool"}, Replaces: []string{"metallb"}}}, converge.Diff{
			{Path: "service/hub/proxy", Effect: converge.Remove},
			{Path: "persistentvolumeclaim/hub/kept", Effect: converge.Update},
			{Path: "persistentvolumeclaim/hub/db", Effect: converge.Remove},
			{Path: "service/hub/api", Effect: converge.Remove},
			{Path: "persistentvolumeclaim/hub/homes", Effect: converge.Remove},
		})
		require.Len(t, out, 3)
		for i, name := range []string{"hub/db", "hub/homes", "metallb"} {
			assert.Equal(t, name, out[i].Machine)
			assert.Equal(t, converge.CostDestroy, out[i].Kind)
		}
		assert.Equal(t, "cilium-pool replaces it", out[2].Reason)
		assert.Contains(t, out[2].Holds[0].Text, "cannot find out which data goes with it: ")
	})
}

// The operator ends the pods that use GPUs when its driver changes, which is a cost also where nobody
// can say whose they are. What is new ends nothing.
func TestCostsOfTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("no way there")
		s := New(Config{Spec: &spec.Spec{Nodes: []spec.Node{{Name: "wk1", GPUs: spec.GPURequest{Count: 2}}, {Name: "wk2"}}},
			Kube: func(context.Context) (*kube.Client, error) { return nil, away }, Work: func(context.Context) (*workload.Work, error) { return nil, away }})
		costs := func(part string, d ...converge.Field) []converge.Cost {
			return s.costsOfChart(t.Context(), chartState{part: addon.Recipe{Part: chart.Part{Name: part}}}, d)
		}
		version := converge.Field{Path: "values/driver/version", Have: "580.126.20", Want: "595.91.07", Effect: converge.Update}
		assert.Empty(t, costs(addon.GPUOperatorName, version), "each node says that itself")
		out := costs(addon.GPUOperatorName, converge.Field{Path: "values/driver/enabled", Have: "true", Want: "false"})
		require.Len(t, out, 1)
		assert.Equal(t, "GPUs of wk1", out[0].Machine)
		assert.Equal(t, converge.CostStop, out[0].Kind)
		assert.Contains(t, out[0].Users[0].Text, "cannot find out whose work ends: no way there")
		assert.Len(t, costs(addon.GPUOperatorName, converge.Field{Path: "values/devicePlugin/config/default", Have: "mps-4", Want: "none"}), 1)
		assert.Empty(t, costs(addon.GPUOperatorName, converge.Field{Path: "values/devicePlugin/config/default", Have: "none", Want: "mps-4"}))
		assert.Empty(t, costs(addon.GPUOperatorName, converge.Field{Path: "values/driver/version", Want: "580.126.20", Effect: converge.Create}))
		assert.Empty(t, costs("monitoring", version))
	})
}

// A bundle goes when its fleet.yaml does; what else changes in Git is rolled over.
func TestWhatAPushTakesAway(t *testing.T) {
	gone := func(path string) converge.Field {
		return converge.Field{Path: path, Have: "there", Effect: converge.Remove}
	}
	costs := costsOfPush(t.Context(), nil, converge.Diff{
		gone("monitoring/fleet.yaml"), gone("monitoring/values.yaml"), gone("nfs/old.yaml"), {Path: "hub/fleet.yaml", Want: "changed"},
	})
	assert.Equal(t, []converge.Cost{{
		Machine: "monitoring", Kind: converge.CostDestroy, Reason: "it is no longer in Git, so Fleet deletes it", Holds: []converge.Loss{{Text: "volumes that its chart does not keep"}},
	}}, costs)
}

// With the GitRepo go bundles that others have put into the folder.
func TestBundlesOfOthersGoWithTheGitRepo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, sim, _ := failing(t)
		bundle := func(name, labels string) string {
			return "---\n{apiVersion: fleet.cattle.io/v1alpha1, kind: Bundle, metadata: {name: " + name + ", namespace: fleet-local, labels: {fleet.cattle.io/repo-name: homelab" + labels + "}}, spec: {}}\n"
		}
		require.NoError(t, sim.Apply(t.Context(), []byte(kubetest.FleetKinds()+"---\n{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}\n---\n"+
			"{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}}\n"+bundle("hub", ", "+fleet.PartLabel+": hub")+bundle("mine", ""))))
		costs := s.Retires(t.Context(), client, Record{Part: platform.GitOps, After: []kube.Ref{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "GitRepo", Namespace: "fleet-local", Name: "homelab"}}}, "no longer in the file")
		require.Len(t, costs, 1)
		assert.Equal(t, []converge.Loss{{Text: "bundle mine, which homelab did not write"}}, costs[0].Holds)
	})
}
