package parts

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// failingFile has parts of every kind, and one external machine.
const failingFile = `
name: lab
nodes: {a: {role: server, external: ops@10.0.0.40}}
storage: {default: nfs, nfs: {server: 192.168.1.5, export: /export/k3s}}
tls: self-signed
hub: {hostname: hub.lab.example, auth: dummy, profiles: {small: {cpu: 1, memory: 2GiB}}}
fleet: {repo: 'http://127.0.0.1/gpu.git', username: homelab, password: env:GIT_TOKEN}
`

// failing are the steps of that file with an API.
func failing(t *testing.T) (*Steps, *kube.Client, *kubesim.Cluster, *kubetest.FailNth) {
	t.Helper()
	t.Setenv("GIT_TOKEN", "correct horse battery")
	charts, err := filepath.Abs("../../../sim/lab/charts")
	require.NoError(t, err)
	want, err := clusterfile.Parse("cluster.yaml", []byte(failingFile+"charts: {folder: "+charts+", offline: true, via: {jupyterhub: fleet}}\n"))
	require.NoError(t, err)
	client, sim, way := kubetest.Kubernetes(t)
	return New(Config{
		Spec: want, Make: func() ([]addon.Recipe, error) { return platform.Pieces(want, true) },
		Kube:    func(context.Context) (*kube.Client, error) { return client, nil },
		Work:    func(ctx context.Context) (*workload.Work, error) { return workload.Read(ctx, client) },
		GitDial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way to Git") },
	}), client, sim, way
}

func mustKube(t *testing.T, s *Steps) *kube.Client {
	t.Helper()
	client, err := s.Kube(t.Context())
	require.NoError(t, err)
	return client
}

func pieceOf(t *testing.T, s *Steps, name string) addon.Recipe {
	t.Helper()
	all, err := s.Make()
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(p addon.Recipe) bool { return p.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

func TestKubernetesRefusesAStep(t *testing.T) {
	of := func(name string) addon.Recipe { return addon.Recipe{Part: chart.Part{Name: name}} }
	for name, tt := range map[string]kubetest.Refusals[*Steps]{
		"objects are looked at": {Step: func(ctx context.Context, s *Steps) error {
			return kubetest.ErrOf(s.objectsStep(pieceOf(t, s, platform.GitOps)).Observe(ctx))
		}},
		"a chart is looked at": {Step: func(ctx context.Context, s *Steps) error {
			return kubetest.ErrOf(s.chartStep(pieceOf(t, s, "nfs")).Observe(ctx))
		}},
		"Secrets are looked at": {Step: func(ctx context.Context, s *Steps) error {
			late := func(ctx context.Context, c *kube.Client) (chart.Part, error) {
				return chart.Part{Name: "late"}, kubetest.ErrOf(c.Nodes(ctx))
			}
			return kubetest.ErrOf(s.secretsStep(addon.Recipe{Late: late}).Observe(ctx))
		}},
		"storage is looked at": {Step: func(ctx context.Context, s *Steps) error {
			return kubetest.ErrOf(s.storageStep(pieceOf(t, s, "nfs").Probes[0]).Observe(ctx))
		}},
		"Fleet is looked at": {Step: func(ctx context.Context, s *Steps) error { return kubetest.ErrOf(s.fleetStep().Observe(ctx)) }},
		"a bundle is looked at": {Step: func(ctx context.Context, s *Steps) error {
			return kubetest.ErrOf(s.bundleStep(of("jupyterhub")).Observe(ctx))
		}},
		"the folder is looked at":       {Step: func(ctx context.Context, s *Steps) error { return kubetest.ErrOf(emptyFolder{s}.push().Observe(ctx)) }},
		"the empty folder is looked at": {Step: func(ctx context.Context, s *Steps) error { return kubetest.ErrOf(emptyFolder{s}.wait().Observe(ctx)) }},
		"one Fleet": {Step: func(ctx context.Context, s *Steps) error {
			return s.checkOnlyFleet(ctx, addon.Recipe{Fleet: true, Part: chart.Part{Name: "fleet"}})
		}},
		"whether Fleet has a part": {NoReach: true, Step: func(ctx context.Context, s *Steps) error { return s.checkNotInFleet(ctx, mustKube(t, s), of("hub")) }},
		"objects are made": {There: "{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}", Step: func(ctx context.Context, s *Steps) error {
			return s.objectsStep(pieceOf(t, s, platform.GitOps)).Apply(ctx, objectsState{part: pieceOf(t, s, platform.GitOps)})
		}},
	} {
		t.Run(name, func(t *testing.T) { tt.Run(t, fresh, withoutAPI) })
	}
}

// So does every request with which a part goes.
func TestKubernetesRefusesToLetGo(t *testing.T) {
	at := func(kind, name string) []kube.Ref {
		return []kube.Ref{{APIVersion: "v1", Kind: kind, Namespace: "kube-system", Name: name}}
	}
	old := Record{Part: "old", Namespace: "old", Classes: []string{"slow"}, Before: at("ConfigMap", "before"), After: at("ConfigMap", "after"), Secrets: at("Secret", "given")}
	released := old
	released.Release = "old"
	for name, step := range map[string]func(ctx context.Context, s *Steps) error{
		"a part is retired":    func(ctx context.Context, s *Steps) error { return s.RetirePart(ctx, old) },
		"a release is retired": func(ctx context.Context, s *Steps) error { return s.RetirePart(ctx, released) },
		"a part is superseded": func(ctx context.Context, s *Steps) error {
			return s.supersede(ctx, addon.Recipe{Replaces: []string{"old"}})
		},
		"a part is handed over":                 func(ctx context.Context, s *Steps) error { return s.ReleaseToFleet(ctx, old) },
		"a part without Secrets is handed over": func(ctx context.Context, s *Steps) error { return s.ReleaseToFleet(ctx, Record{Part: "old"}) },
	} {
		t.Run(name, func(t *testing.T) {
			kubetest.Refusals[*Steps]{Step: step, Before: func(ctx context.Context, s *Steps) error {
				return kubetest.ErrOf(mustKube(t, s).Apply(ctx, old.Object()))
			}}.Run(t, fresh, withoutAPI)
		})
	}
}

// A part waits for the API, and for what it uses.
func TestDependencies(t *testing.T) {
	on := Ground{API: new(converge.Ref), Nodes: []*converge.Ref{new(converge.Ref)}, Gpus: []*converge.Ref{new(converge.Ref)}, Files: []*converge.Ref{new(converge.Ref)}}
	ready := Refs{"tls": new(converge.Ref)}
	for _, tt := range []struct {
		part addon.Recipe
		want []*converge.Ref
	}{
		{addon.Recipe{}, []*converge.Ref{on.API}},
		{addon.Recipe{GPUs: true}, []*converge.Ref{on.API, on.Gpus[0]}},
		{addon.Recipe{Part: chart.Part{Name: "nfs"}}, []*converge.Ref{on.API, on.Files[0]}},
		{addon.Recipe{Part: chart.Part{Needs: []string{"tls"}}}, []*converge.Ref{on.API, ready["tls"]}},
	} {
		got := on.dependencies(tt.part, ready)
		require.Len(t, got, len(tt.want))
		for i := range got {
			assert.Same(t, tt.want[i], got[i])
		}
	}
}

func fresh(t *testing.T) (*Steps, *kubesim.Cluster, *kubetest.FailNth) {
	s, _, sim, way := failing(t)
	return s, sim, way
}

func withoutAPI(s *Steps) error {
	away := errors.New("nobody answers")
	s.Kube = func(context.Context) (*kube.Client, error) { return nil, away }
	return away
}
