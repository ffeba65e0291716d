package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// fluxTree has two parts in one namespace: a claim and a chart with data, and a chart after it.
func fluxTree(t *testing.T) fleet.Tree {
	claim := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "web"}}
	of := func(name string, keep bool, needs ...string) chart.Part {
		return chart.Part{Name: name, Keep: keep, Needs: needs, Release: &chart.Release{Name: name, Namespace: "web", Chart: "c", Version: "1.2.3",
			Repo: "oci://r.example/charts/c", Values: map[string]any{"replicas": 2, "text": "${x}"}}}
	}
	data := of("data", true)
	data.Before = []runtime.Object{claim}
	bundles, err := fleet.BundlesOfAll(data, of("page", false, "data"))
	require.NoError(t, err)
	tree, err := fleet.Render(bundles, fleet.Options{Tool: fleet.ToolFlux, Cluster: "lab", Path: "flux/lab"})
	require.NoError(t, err)
	return tree
}

func parsed(t *testing.T, text []byte) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.UnmarshalStrict(text, &u.Object))
	return u
}

// The root applies the bundles only, and a bundle what is beside it only: nothing is applied twice, and
// nothing that is somebody else's.
func TestFluxAppliesEachObjectOnce(t *testing.T) {
	tree := fluxTree(t)
	named := map[string]bool{"README.md": true, fleet.ListFile: true, "kustomization.yaml": true}
	var read func(dir string)
	read = func(dir string) {
		list, _, err := unstructured.NestedStringSlice(parsed(t, tree[dir+"kustomization.yaml"]).Object, "resources")
		require.NoError(t, err)
		for _, name := range list {
			require.Contains(t, tree, dir+name)
			require.False(t, named[dir+name], "twice: %s", dir+name)
			named[dir+name] = true
			if u := parsed(t, tree[dir+name]); dir == "" {
				path, _, _ := unstructured.NestedString(u.Object, "spec", "path")
				sub, below := strings.CutPrefix(path, "./flux/lab/")
				require.True(t, below, path)
				named[sub+"/kustomization.yaml"] = true
				read(sub + "/")
			}
		}
	}
	read("")
	for name := range tree {
		assert.True(t, named[name], "nobody reads %s", name)
	}
}

// What holds data stays when its bundle goes, and a namespace in any case.
func TestFluxKeepsData(t *testing.T) {
	tree := fluxTree(t)
	for name, keep := range map[string]bool{"data-before": true, "data": true, "page": false} {
		u := parsed(t, tree[name+"/flux.yaml"])
		prune, _, _ := unstructured.NestedBool(u.Object, "spec", "prune")
		policy, _, _ := unstructured.NestedString(u.Object, "spec", "deletionPolicy")
		assert.Equal(t, !keep, prune, name)
		assert.Equal(t, keep, policy == "Orphan", name)
	}
	assert.Equal(t, "disabled", parsed(t, tree["data-before/namespace-web.yaml"]).GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"])
	assert.NotContains(t, tree, "data/namespace-web.yaml", "one bundle makes a namespace")
	after, _, _ := unstructured.NestedSlice(parsed(t, tree["page/flux.yaml"]).Object, "spec", "dependsOn")
	assert.Equal(t, []any{map[string]any{"name": "data"}, map[string]any{"name": "data-before"}}, after)
	release := parsed(t, tree["data/helmrelease-data.yaml"])
	assert.NotContains(t, release.Object["spec"], "remediation", "which would uninstall")
	url, _, _ := unstructured.NestedString(parsed(t, tree["data/helmrepository-data.yaml"]).Object, "spec", "url")
	assert.Equal(t, "oci://r.example/charts", url)
}

// Flux gets the repository in the form that it knows, and its login under the keys that it reads.
func TestFluxRepository(t *testing.T) {
	for _, tt := range []struct {
		repo fleet.GitRepo
		url  string
		keys []string
	}{
		{fleet.GitRepo{URL: "git@g.example:a/b.git", SSHKey: secret.New("key"), KnownHosts: "g.example x"}, "ssh://git@g.example/a/b.git", []string{"identity", "known_hosts"}},
		{fleet.GitRepo{URL: "ssh://me@g.example:2222/a.git", SSHKey: secret.New("key"), KnownHosts: "g.example x"}, "ssh://me@g.example:2222/a.git", []string{"identity", "known_hosts"}},
		{fleet.GitRepo{URL: "https://g.example/a.git", Username: "robot", Password: secret.New("pw"), CA: []byte("ca")}, "https://g.example/a.git", []string{"username", "password", "ca.crt"}},
		{fleet.GitRepo{URL: "https://g.example/a.git"}, "https://g.example/a.git", nil},
	} {
		tt.repo.Tool, tt.repo.Paths = fleet.ToolFlux, []string{"flux/lab", "more"}
		assert.Nil(t, tt.repo.DecryptionKey())
		tt.repo.SOPSKey = secret.New("# created: today\nAGE-SECRET-KEY-1QQ\n")
		assert.Equal(t, "homelab-flux/sops-age homelab.agekey", fmt.Sprint(tt.repo.DecryptionKey().Namespace, "/", tt.repo.DecryptionKey().Name, " ", slices.Collect(maps.Keys(tt.repo.DecryptionKey().Data))[0]))
		objects, login, err := tt.repo.Objects()
		require.NoError(t, err)
		require.Len(t, objects, 3, "the repository, and a Kustomization for each folder")
		url, _, _ := unstructured.NestedString(objects[0].(*unstructured.Unstructured).Object, "spec", "url")
		assert.Equal(t, tt.url, url)
		for _, o := range objects[1:] {
			policy, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "spec", "deletionPolicy")
			assert.Equal(t, "Orphan", policy, "without the root everything stays")
			decryption, _, _ := unstructured.NestedMap(o.(*unstructured.Unstructured).Object, "spec", "decryption")
			assert.Equal(t, map[string]any{"provider": "sops", "secretRef": map[string]any{"name": "sops-age"}}, decryption)
		}
		if tt.keys == nil {
			assert.Nil(t, login)
			continue
		}
		assert.Len(t, login.Data, len(tt.keys))
		for _, key := range tt.keys {
			assert.Contains(t, login.Data, key)
		}
	}
	for _, r := range []fleet.GitRepo{{URL: "git@g.example:a"}, {URL: "git@g.example:a", SSHKey: secret.New("key")}, {URL: "https://g.example/a", Password: secret.New("pw")}} {
		r.Tool = fleet.ToolFlux
		_, _, err := r.Objects()
		assert.Error(t, err)
	}
	_, _, err := fleet.GitRepo{Tool: fleet.ToolFlux, URL: "https://g.example/a", SOPSKey: secret.New("-----BEGIN PGP PRIVATE KEY BLOCK-----")}.Objects()
	assert.ErrorContains(t, err, "flux.sopsKey is not an age key")
}
