package fleet_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a folder with testdata, file by file.
func golden(t *testing.T, dir string, have fleet.Tree) {
	t.Helper()
	root := filepath.Join("testdata", dir)
	if *update {
		require.NoError(t, os.RemoveAll(root))
		for name, content := range have {
			full := filepath.Join(root, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
			require.NoError(t, os.WriteFile(full, content, 0o644))
		}
	}
	var names []string
	require.NoError(t, filepath.WalkDir(root, func(full string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(root, full)
			names = append(names, filepath.ToSlash(name))
			want, _ := os.ReadFile(full)
			assert.Equal(t, string(want), string(have[filepath.ToSlash(name)]), name)
		}
		return err
	}))
	assert.ElementsMatch(t, names, have.Names())
}

func TestRender(t *testing.T) {
	have := tree(t)
	golden(t, "render", have)
	for range 20 {
		require.Equal(t, have, tree(t), "the same bundles give the same bytes")
	}
}

// TestRenderedIsWhatFleetReads: Fleet's own types, decoded without leniency, and its
// own YAML for values, say what we meant.
func TestRenderedIsWhatFleetReads(t *testing.T) {
	have := tree(t)
	bundles, err := fleet.BundlesOfAll(parts()...)
	require.NoError(t, err)
	for _, b := range bundles {
		var y api.FleetYAML
		require.NoError(t, yaml.UnmarshalStrict(have[b.Name+"/fleet.yaml"], &y), b.Name)
		assert.Equal(t, b.Name, y.Name)
		assert.Equal(t, b.Namespace, y.DefaultNamespace)
		assert.Empty(t, y.TargetNamespace)
		if b.Release == nil {
			continue
		}
		assert.Equal(t, b.Release.Version, y.Helm.Version)
		if len(b.Release.Values) > 0 {
			var values map[string]any
			require.NoError(t, yaml.Unmarshal(have[b.Name+"/values.yaml"], &values))
			assert.Equal(t, b.Release.Values, values, "%s: yes, on and 0755 stay what they are", b.Name)
		}
	}
	assert.NotContains(t, string(have["nfs-after/storageclass-nfs.yaml"]), "managed-by", "Helm sets it to Helm: for Fleet that is drift")
	assert.NotContains(t, string(have["README.md"]), "never in Git")
	assert.Contains(t, string(have["README.md"]), "jupyterhub/hub-secrets")
	assert.Contains(t, string(have["nfs/fleet.yaml"]), "disablePreProcess: true")
	assert.NotContains(t, string(have["cert-manager/fleet.yaml"]), "disablePreProcess")
}

func TestListIsOfSha256sum(t *testing.T) {
	dir := t.TempDir()
	_, err := fleet.Write(dir, tree(t), false)
	require.NoError(t, err)
	run(t, dir, "sha256sum", "--strict", "-c", fleet.ListFile)
}

func TestRenderRefuses(t *testing.T) {
	release := func(change func(*chart.Part)) []chart.Part {
		p := parts()[0]
		r := *p.Release
		p.Release = &r
		change(&p)
		return []chart.Part{p}
	}
	object := func(kind, name string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "a"}}}
	}
	for words, ps := range map[string][]chart.Part{
		"Rancher's own":     release(func(p *chart.Part) { p.Release.Name = "rancher" }),
		"Fleet's agent":     release(func(p *chart.Part) { p.Name = "fleet-agent-x" }),
		"K3s' own":          release(func(p *chart.Part) { p.Release.Name, p.Release.Namespace = "traefik", "kube-system" }),
		"has no version":    release(func(p *chart.Part) { p.Release.Version = "" }),
		"local folder only": release(func(p *chart.Part) { p.Release.Repo = "" }),
		"at most 53":        release(func(p *chart.Part) { p.Name = strings.Repeat("a", 54) }),
		"lower-case":        release(func(p *chart.Part) { p.Name = "Cert" }),
		"label of the cluster": release(func(p *chart.Part) {
			p.Release.Values = map[string]any{"a": []any{"global.fleet.clusterLabels.x"}}
		}),
		"secret among the values": release(func(p *chart.Part) { p.Release.Values = map[string]any{"a": secret.New("x")} }),
		"does not belong in Git": release(func(p *chart.Part) {
			p.Before = []runtime.Object{&corev1.Secret{ObjectMeta: apiextensions.ObjectMeta{Name: "s"}}}
		}),
		"a secret would be written": {{Name: "a", Before: []runtime.Object{&corev1.ConfigMap{ObjectMeta: apiextensions.ObjectMeta{Name: "c"}, Data: map[string]string{"k": secret.New("x").String()}}}}},
		"nothing to deploy":         {{Name: "a"}},
		"two bundles, a and b":      {{Name: "a", Before: []runtime.Object{object("ConfigMap", "x")}}, {Name: "b", After: []runtime.Object{object("ConfigMap", "x")}}},
		"are named a":               {{Name: "a", Before: []runtime.Object{object("ConfigMap", "x")}}, {Name: "a", After: []runtime.Object{object("ConfigMap", "y")}}},
		"wait for each other: a, b": {{Name: "a", Needs: []string{"b"}, Before: []runtime.Object{object("ConfigMap", "x")}}, {Name: "b", Needs: []string{"a"}, After: []runtime.Object{object("ConfigMap", "y")}}},
		"both set labels": {
			{Name: "a", NamespaceLabels: map[string]string{"x": "1"}, Before: []runtime.Object{object("ConfigMap", "x")}},
			{Name: "b", NamespaceLabels: map[string]string{"x": "1"}, Before: []runtime.Object{object("ConfigMap", "y")}},
		},
	} {
		bundles, err := fleet.BundlesOfAll(ps...)
		if err == nil {
			_, err = fleet.Render(bundles, fleet.Options{})
		}
		require.ErrorContains(t, err, words)
	}
	_, err := fleet.Render([]fleet.Bundle{{Name: "a", DependsOn: []string{"nowhere"}}}, fleet.Options{})
	require.ErrorContains(t, err, "wait forever")
}

// TestDefinitionsAreApart: a definition and an object of it in one release never
// installs.
func TestDefinitionsAreApart(t *testing.T) {
	objs, err := kube.Decode([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec: {group: example.com, names: {kind: Thing, plural: things}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: others.example.com}
spec: {group: example.com, names: {kind: Other, plural: others}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: one, namespace: apps}
`))
	require.NoError(t, err)
	bundles, err := fleet.BundlesOf(chart.Part{Name: "things", Before: objs})
	require.NoError(t, err)
	require.Len(t, bundles, 2)
	assert.Equal(t, "things-crds", bundles[0].Name)
	assert.Len(t, bundles[0].Objects, 1)
	assert.Equal(t, "things", bundles[1].Name)
	assert.Equal(t, []string{"things-crds"}, bundles[1].DependsOn)
	assert.Equal(t, "apps", bundles[1].Namespace)
}

// TestReviewSeesTheChange: what a person sees in a pull request after a change.
func TestReviewSeesTheChange(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	_, err := fleet.Write(dir, tree(t), false)
	require.NoError(t, err)
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "before")

	changed := parts()
	changed[0].Release.Version = "v1.21.3"
	changed[3].Release.Values["singleuser"].(map[string]any)["memory"] = map[string]any{"limit": "8G"}
	changed = append(changed[:2], changed[3])
	bundles, err := fleet.BundlesOfAll(changed...)
	require.NoError(t, err)
	next, err := fleet.Render(bundles, fleet.Options{Cluster: "lab", Path: "fleet/lab"})
	require.NoError(t, err)
	changes, err := fleet.Write(dir, next, false)
	require.NoError(t, err)
	assert.Equal(t, 5, len(changes))
	git(t, dir, "add", "-A")
	diff := git(t, dir, "diff", "--cached", "--no-color", "--unified=0", "--", ".", ":!"+fleet.ListFile)
	golden(t, "review", fleet.Tree{"change.diff": []byte(diff + "\n")})
}
