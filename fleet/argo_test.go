package fleet_test

import (
	"maps"
	"path"
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

// argoTree has a part with a claim, a definition and a chart, which hold data, and one without data.
func argoTree(t *testing.T, version string, replicas int) fleet.Tree {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "web"}}
	definition := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things.example"}}}
	of := func(name string, keep bool, repo string, needs ...string) chart.Part {
		return chart.Part{Name: name, Keep: keep, Needs: needs, Release: &chart.Release{Name: name + "-release", Namespace: "web", Chart: "c", Version: version,
			Repo: repo, Values: map[string]any{"replicas": replicas, "text": "${x} {{ y }}"}}}
	}
	data := of("data", true, "oci://r.example/charts/c")
	data.Before = []runtime.Object{definition, claim}
	bundles, err := fleet.BundlesOfAll(data, of("page", false, "https://charts.example", "data"))
	require.NoError(t, err)
	tree, err := fleet.Render(bundles, fleet.Options{Tool: fleet.ToolArgo, Cluster: "lab", Path: "argocd/lab", Repo: "git@g.example:infra.git", Branch: "live"})
	require.NoError(t, err)
	return tree
}

// Each file is read once: the root names the Applications, and each deploys its directory as objects that are
// listed there, or as a chart. Argo CD itself reads the Application beside them in neither case.
func TestArgoReadsEachFileOnce(t *testing.T) {
	tree := argoTree(t, "1.2.3", 2)
	read := map[string]bool{"README.md": true, fleet.ListFile: true, "kustomization.yaml": true}
	resources := func(dir string) []string {
		list, _, err := unstructured.NestedStringSlice(parsed(t, tree[dir+"kustomization.yaml"]).Object, "resources")
		require.NoError(t, err)
		return list
	}
	once := func(name string) {
		require.Contains(t, tree, name)
		require.False(t, read[name], "twice: %s", name)
		read[name] = true
	}
	for _, name := range resources("") {
		once(name)
		u := parsed(t, tree[name])
		source, _, _ := unstructured.NestedMap(u.Object, "spec", "source")
		dir := path.Dir(name)
		assert.Equal(t, "homelab-"+dir, u.GetName())
		assert.Equal(t, "argocd", u.GetNamespace())
		assert.Equal(t, "ssh://git@g.example/infra.git", source["repoURL"])
		assert.Equal(t, "live", source["targetRevision"])
		assert.Equal(t, "argocd/lab/"+dir, source["path"])
		if _, isChart := tree[dir+"/Chart.yaml"]; isChart {
			once(dir + "/Chart.yaml")
			once(dir + "/values.yaml")
			assert.NotContains(t, tree, dir+"/kustomization.yaml")
			assert.Equal(t, map[string]any{"releaseName": dir + "-release"}, source["helm"])
			continue
		}
		once(dir + "/kustomization.yaml")
		for _, file := range resources(dir + "/") {
			once(dir + "/" + file)
		}
	}
	for name := range tree {
		assert.True(t, read[name], "nobody reads %s", name)
	}
}

// A chart is the one dependency of the directory's chart, with its values below its name.
func TestArgoChart(t *testing.T) {
	tree := argoTree(t, "1.2.3", 2)
	for dir, repo := range map[string]string{"data": "oci://r.example/charts", "page": "https://charts.example"} {
		var c struct {
			APIVersion, Name, Version string
			Dependencies              []struct{ Name, Version, Repository string }
		}
		require.NoError(t, yaml.UnmarshalStrict(tree[dir+"/Chart.yaml"], &c))
		assert.Equal(t, "v2", c.APIVersion)
		require.Len(t, c.Dependencies, 1)
		assert.Equal(t, struct{ Name, Version, Repository string }{"c", "1.2.3", repo}, c.Dependencies[0])
		var values map[string]map[string]any
		require.NoError(t, yaml.UnmarshalStrict(tree[dir+"/values.yaml"], &values))
		assert.Equal(t, map[string]map[string]any{"c": {"replicas": float64(2), "text": "${x} {{ y }}"}}, values)
	}
}

// No Application changes with what its bundle deploys: while a sync is repeated, Argo CD takes new commits, and
// nothing new of the Application, so a correction in there would never arrive.
func TestArgoApplicationsAreConstant(t *testing.T) {
	one, other := argoTree(t, "1.2.3", 2), argoTree(t, "1.2.4", 5)
	assert.Equal(t, slices.Sorted(maps.Keys(one)), slices.Sorted(maps.Keys(other)))
	assert.NotEqual(t, one["page/values.yaml"], other["page/values.yaml"])
	for name, text := range one {
		if path.Base(name) == "argocd.yaml" {
			assert.Equal(t, string(text), string(other[name]), name)
		}
	}
}

// Nothing is uninstalled: no Application has a finalizer, and what holds data is not pruned either.
func TestArgoDeletesNoData(t *testing.T) {
	tree := argoTree(t, "1.2.3", 2)
	for name, prune := range map[string]bool{"data-before": false, "data": false, "page": true} {
		u := parsed(t, tree[name+"/argocd.yaml"])
		assert.Empty(t, u.GetFinalizers())
		automated, _, _ := unstructured.NestedMap(u.Object, "spec", "syncPolicy", "automated")
		assert.Equal(t, map[string]any{"prune": prune, "selfHeal": false}, automated, name)
		retry, _, _ := unstructured.NestedMap(u.Object, "spec", "syncPolicy", "retry")
		assert.Equal(t, float64(-1), retry["limit"], "tried until what it needs is there")
		assert.Equal(t, true, retry["refresh"], "with the newest commit")
		assert.Subset(t, options(t, u), []any{"CreateNamespace=true", "ServerSideApply=true", "FailOnSharedResource=true"})
	}
	claim := parsed(t, tree["data-before/persistentvolumeclaim-data.yaml"])
	assert.Equal(t, map[string]string{"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "argocd.argoproj.io/ignore-healthcheck": "true"}, claim.GetAnnotations())
	definition := parsed(t, tree["data-before/customresourcedefinition-things.example.yaml"])
	assert.Equal(t, map[string]string{"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}, definition.GetAnnotations())
	assert.NotContains(t, strings.Join(slices.Collect(maps.Keys(tree)), " "), "namespace-", "Argo CD makes namespaces, and tracks none")
}

func options(t *testing.T, u *unstructured.Unstructured) []any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "syncPolicy", "syncOptions")
	require.NoError(t, err)
	return list
}

// What others write into an object of a chart is left as it is.
func TestArgoQuirks(t *testing.T) {
	bundles, err := fleet.BundlesOfAll(chart.Part{Name: "cert-manager", Release: &chart.Release{Name: "cert-manager", Namespace: "cert-manager", Chart: "cert-manager", Version: "v1", Repo: "https://charts.example"}})
	require.NoError(t, err)
	tree, err := fleet.Render(bundles, fleet.Options{Tool: fleet.ToolArgo, Path: "a", Repo: "https://g.example/infra.git"})
	require.NoError(t, err)
	u := parsed(t, tree["cert-manager/argocd.yaml"])
	ignored, _, _ := unstructured.NestedSlice(u.Object, "spec", "ignoreDifferences")
	assert.Equal(t, []any{
		map[string]any{"group": "admissionregistration.k8s.io", "kind": "MutatingWebhookConfiguration", "jsonPointers": []any{"/webhooks/0/clientConfig/caBundle"}},
		map[string]any{"group": "admissionregistration.k8s.io", "kind": "ValidatingWebhookConfiguration", "jsonPointers": []any{"/webhooks/0/clientConfig/caBundle"}},
	}, ignored)
	assert.Contains(t, options(t, u), any("RespectIgnoreDifferences=true"))
	assert.NotContains(t, tree, "cert-manager/values.yaml", "there are none")
}

// The project, an Application for each folder, which deletes nothing, and the login under Argo CD's keys.
func TestArgoRepository(t *testing.T) {
	for _, tt := range []struct {
		repo fleet.GitRepo
		url  string
		keys []string
	}{
		{fleet.GitRepo{URL: "git@g.example:a/b.git", SSHKey: secret.New("key"), KnownHosts: "g.example x"}, "ssh://git@g.example/a/b.git", []string{"sshPrivateKey"}},
		{fleet.GitRepo{URL: "https://g.example/a.git", Username: "robot", Password: secret.New("pw")}, "https://g.example/a.git", []string{"username", "password"}},
		{fleet.GitRepo{URL: "https://me@g.example/a.git", Password: secret.New("pw")}, "https://g.example/a.git", []string{"username", "password"}},
		{fleet.GitRepo{URL: "https://g.example/a.git"}, "https://g.example/a.git", nil},
	} {
		tt.repo.Tool, tt.repo.Paths = fleet.ToolArgo, []string{"argocd/lab", "more"}
		objects, login, err := tt.repo.Objects()
		require.NoError(t, err)
		require.Len(t, objects, 3)
		for i, o := range objects {
			u := o.(*unstructured.Unstructured)
			assert.Equal(t, "argocd", u.GetNamespace())
			assert.Empty(t, u.GetFinalizers())
			assert.Equal(t, []string{"homelab", "homelab-git-argocd-lab", "homelab-git-more"}[i], u.GetName())
			if i > 0 {
				source, _, _ := unstructured.NestedMap(u.Object, "spec", "source")
				assert.Equal(t, map[string]any{"repoURL": tt.url, "targetRevision": "main", "path": tt.repo.Paths[i-1]}, source)
				automated, _, _ := unstructured.NestedMap(u.Object, "spec", "syncPolicy", "automated")
				assert.Equal(t, map[string]any{"prune": false, "selfHeal": false}, automated)
			}
		}
		if tt.keys == nil {
			assert.Nil(t, login)
			continue
		}
		assert.Equal(t, map[string]string{"argocd.argoproj.io/secret-type": "repository"}, login.Labels)
		assert.ElementsMatch(t, append(tt.keys, "type", "url", "project"), slices.Collect(maps.Keys(login.Data)))
		assert.Equal(t, tt.url, login.Data["url"].Reveal(), "as the Applications name it")
	}
	for _, r := range []fleet.GitRepo{{URL: "git@g.example:a"}, {URL: "git@g.example:a", SSHKey: secret.New("key")}, {URL: "https://g.example/a", Password: secret.New("pw")}} {
		r.Tool = fleet.ToolArgo
		_, _, err := r.Objects()
		assert.ErrorContains(t, err, "argocd.")
	}
}
