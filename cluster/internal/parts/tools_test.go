package parts

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
)

// fleetDeploys is a cluster in which Fleet deploys the hub from a folder.
const fleetDeploys = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}\n---\n" +
	"{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, spec: {repo: 'http://127.0.0.1/gpu.git', branch: main, paths: [fleet/old, extra]}}\n---\n" +
	"{apiVersion: fleet.cattle.io/v1alpha1, kind: Bundle, metadata: {name: homelab-hub, namespace: fleet-local, labels: {fleet.cattle.io/repo-name: homelab, " + fleet.PartLabel + ": hub}}, spec: {}}\n"

// Neither a tool nor what points it at Git leaves a cluster while it deploys parts.
func TestToolThatDeploysStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, sim, _ := failing(t)
		require.NoError(t, sim.Apply(t.Context(), []byte(kubetest.FleetKinds()+fleetDeploys)))
		s.Spec.Platform.Fleet = nil
		for _, part := range []string{platform.GitOps, "fleet", "fleet-crd"} {
			err := s.CheckUnused(t.Context(), client, Record{Part: part})
			require.ErrorAs(t, err, new(InUse))
			assert.ErrorContains(t, err, "part "+part+" is no longer in the file but stays: Fleet still deploys hub from Git: write its section again as it was, with default: direct")
		}
		for _, part := range []string{"flux", "argocd", "metallb"} {
			require.NoError(t, s.CheckUnused(t.Context(), client, Record{Part: part}), part)
		}
	})
}

// A folder that the file no longer names is not left behind with what is deployed from it.
func TestFolderThatTheFileNoLongerNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, sim, _ := failing(t)
		require.NoError(t, sim.Apply(t.Context(), []byte(kubetest.FleetKinds()+fleetDeploys)))
		f := s.Spec.Platform.Fleet
		read := func(path, branch, repo string, extra ...string) (bool, error) {
			f.Path, f.Branch, f.Repo, f.Extra = path, branch, repo, extra
			return emptyFolder{s}.isRead(t.Context())
		}
		is, err := read("fleet/old", "main", "http://127.0.0.1/gpu.git")
		require.NoError(t, err)
		assert.True(t, is)
		is, err = read("fleet/new", "main", "http://127.0.0.1/gpu.git", "fleet/old", "extra")
		require.NoError(t, err, "the other folders are not ours")
		assert.False(t, is)
		for _, at := range [][]string{{"fleet/new", "main", "http://127.0.0.1/gpu.git"}, {"fleet/old", "next", "http://127.0.0.1/gpu.git"}, {"fleet/old", "main", "http://127.0.0.1/other.git"}} {
			_, err = read(at[0], at[1], at[2])
			require.ErrorContains(t, err, "Fleet still deploys hub from folder fleet/old", at)
			assert.True(t, converge.IsPermanent(err))
		}
	})
}

// Parts that share a namespace do not take each other's labels of it away, nor what keeps it from Fleet.
func TestNamespaceOfSeveralParts(t *testing.T) {
	text := strings.NewReplacer("export: /export/k3s}", "export: /export/k3s, shares: {films: {export: '10.0.0.31:/films', namespaces: [course, monitoring]}}}").Replace(failingFile) +
		"monitoring: true\npostgres: {databases: {tracking: {namespace: course}}}\n"
	of, err := clusterfile.Parse("cluster.yaml", []byte(text))
	require.NoError(t, err)
	s := New(Config{Spec: of, Make: func() ([]addon.Recipe, error) { return platform.Pieces(of, false) }})
	seen := map[string]*corev1.Namespace{}
	for _, p := range s.Pieces() {
		for _, o := range append(s.namespacesOf(p), agreedNamespaces(of, s.Pieces(), p.Objects())...) {
			ns, is := o.(*corev1.Namespace)
			if !is {
				continue
			}
			if first, there := seen[ns.Name]; there {
				assert.Equal(t, first, ns, p.Name)
			}
			seen[ns.Name] = ns
			assert.Equal(t, "keep", ns.Annotations["helm.sh/resource-policy"])
		}
	}
	require.Contains(t, seen, "course")
	assert.Equal(t, "privileged", seen["monitoring"].Labels["pod-security.kubernetes.io/enforce"])
	of.Platform.Fleet = nil
	assert.Empty(t, agreedNamespace(of, s.Pieces(), "course").Annotations)
}
