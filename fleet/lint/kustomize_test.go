package lint

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const kustomized = `namespace: prod
namePrefix: web-
resources: [base]
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: site}
    spec: {template: {spec: {containers: [{name: site, image: "registry.example.com/site:latest"}]}}}
configMapGenerator:
- name: colours
  literals: [green=https://example.com]
`

const site = `apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: site}
spec:
  selector: {matchLabels: {app: site}}
  template:
    metadata: {labels: {app: site}}
    spec:
      containers:
      - {name: site, image: "registry.example.com/site:1.2.0"}
`

// What a kustomization makes is judged like manifests, at the place of its source.
func TestLintKustomizedObjects(t *testing.T) {
	require.Equal(t, []string{
		"a/base/site.yaml:5:1: warning: Deployment web-site: image registry.example.com/site:latest can be another image at each pull [image-unpinned]",
		"a/fleet.yaml:1:12: error: Namespace prod (a/base/site.yaml line 1) belongs to no namespace: with namespace: prod Fleet refuses the bundle [namespace-cluster-scoped]",
	}, lintOne(t, Options{}, "a/fleet.yaml", "namespace: prod\n", "a/kustomization.yaml", kustomized, "a/base/kustomization.yaml", "resources: [site.yaml]\n", "a/base/site.yaml", site))
}

// Deprecated keys are built as kustomize builds them, and it says nothing on stderr.
func TestLintOldKustomizations(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	found := lintOne(t, Options{}, "a/fleet.yaml", "defaultNamespace: x\n",
		"a/kustomization.yaml", "bases: [base]\ncommonLabels: {app: site, app.kubernetes.io/managed-by: kustomize}\npatchesStrategicMerge: [patch.yaml]\n"+
			"patchesJson6902:\n- target: {group: apps, version: v1, kind: Deployment, name: site}\n  path: ops.yaml\n",
		"a/patch.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: site}\nspec: {paused: true}\n",
		"a/ops.yaml", "- {op: replace, path: /spec/replicaz, value: 2}\n",
		"a/base/kustomization.yaml", "resources: [site.yaml]\n", "a/base/site.yaml", strings.Replace(site, "spec:\n", "spec:\n  replicaz: 1\n", 1))
	os.Stderr = stderr
	require.NoError(t, w.Close())
	said := make([]byte, 1)
	n, _ := r.Read(said)
	require.Zero(t, n, "stderr")
	require.Len(t, found, 3, "%s", found)
	require.Contains(t, found[0], "a/base/site.yaml:1:1: warning: Namespace prod names kustomize")
	require.Contains(t, found[2], "a/base/site.yaml:5:1: error: Deployment site has no field replicaz in spec; did you mean replicas? [unknown-field]")
}

// A repository of somebody else's makes the linter ask no server and run no program,
// however it hides that.
func TestLintKustomizeStaysHere(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(settings))
	}))
	defer server.Close()
	bin, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\n: >"+ran+"\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin)
	for name, tree := range map[string][]string{
		"a file":              {"resources: ['" + server.URL + "/x.yaml']\n"},
		"in capitals":         {"Resources: ['" + strings.Replace(server.URL, "http", "HTTP", 1) + "/x.yaml']\n"},
		"a base":              {"bases: ['github.com/a/b']\n"},
		"a base that is here": {"resources: [github.com/a/b]\n", "a/github.com/a/b/kustomization.yaml", "resources: [x.yaml]\n", "a/github.com/a/b/x.yaml", settings},
		"by ssh":              {"components: ['git@example.com:a/b']\n"},
		"somebody at home":    {"resources: ['me@127.0.0.1/a/b']\n"},
		"by force":            {"resources: ['git::" + server.URL + "/a/b']\n"},
		"by blanks":           {"resources: [' " + server.URL + "/a/b ']\n"},
		"a patch":             {"resources: [x.yaml]\npatches: [{path: '" + server.URL + "/p.yaml'}]\n", "a/x.yaml", settings},
		"an old patch":        {"resources: [x.yaml]\npatchesStrategicMerge: ['" + server.URL + "/p.yaml']\n", "a/x.yaml", settings},
		"a generated file":    {"configMapGenerator: [{name: a, files: ['k=" + server.URL + "/p.yaml']}]\n"},
		"its environment":     {"configMapGenerator: [{name: a, envs: ['" + server.URL + "/p.env']}]\n"},
		"a definition":        {"resources: [x.yaml]\ncrds: ['" + server.URL + "/c.yaml']\n", "a/x.yaml", settings},
		"a schema":            {"resources: [x.yaml]\nopenapi: {path: '" + server.URL + "/c.yaml'}\n", "a/x.yaml", settings},
		"a replacement":       {"resources: [x.yaml]\nreplacements: [{path: '" + server.URL + "/c.yaml'}]\n", "a/x.yaml", settings},
		"a chart":             {"helmCharts: [{name: a, repo: '" + server.URL + "'}]\n"},
		"a generator":         {"generators: [g.yaml]\n", "a/g.yaml", "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: a}\nfiles: ['" + server.URL + "/p.yaml']\n"},
		"a transformer":       {"resources: [x.yaml]\ntransformers: [g.yaml]\n", "a/x.yaml", settings, "a/g.yaml", "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: a}\npath: '" + server.URL + "/p.yaml'\n"},
		"further in":          {"resources: [b]\n", "a/b/Kustomization", "resources: ['" + server.URL + "/x.yaml']\n"},
		"an anchor":           {"x: &a ['" + server.URL + "/x.yaml']\nresources: *a\n"},
		"an escape":           {"resources: [\"\\x68ttp" + strings.TrimPrefix(server.URL, "http") + "/x.yaml\"]\n"},
		"key given twice":     {"resources: [x.yaml]\nresources: ['" + server.URL + "/x.yaml']\n", "a/x.yaml", settings},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), files(append([]string{"a/fleet.yaml", "defaultNamespace: x\n", "a/kustomization.yaml"}, tree...)...), Options{})
			require.NoError(t, err)
			require.Zero(t, asked.Load(), "a server was asked")
			require.NoFileExists(t, ran, "git was run")
			rules := map[string]bool{}
			for _, f := range r.Findings {
				rules[f.Rule] = true
			}
			require.True(t, rules["kustomize-unread"] || rules["kustomize-fails"], "%v", r.Findings)
		})
	}
}

// A target's kustomization is built too, and its objects are variants of the bundle's.
func TestLintKustomizedTargets(t *testing.T) {
	tree := []string{"a/fleet.yaml", "targetCustomizations:\n- clusterName: dev\n  kustomize: {dir: dev}\n", "a/kustomization.yaml", "resources: [x.yaml]\n", "a/x.yaml", settings,
		"a/dev/kustomization.yaml", "resources: [..]\nnamePrefix: 7_\n"}
	require.Empty(t, lintOne(t, Options{}, "a/fleet.yaml", tree[1], "a/base/kustomization.yaml", "resources: [x.yaml]\n", "a/base/x.yaml", settings, "a/dev/kustomization.yaml", "resources: [../base]\n"))
	found := lintOne(t, Options{}, tree...)
	require.Len(t, found, 1)
	require.Contains(t, found[0], "a/dev/kustomization.yaml:1:1: error: kustomize refuses it: ", "a folder takes from the one that it is in: kustomize calls that a cycle")
}

// A manifest beside a kustomization that passes it over is never deployed, unless somebody
// else answers for it.
func TestLintUnnamedManifests(t *testing.T) {
	const unnamed = "[kustomize-unnamed]"
	tree := func(more ...string) string {
		return strings.Join(lintOne(t, Options{}, append([]string{
			"a/fleet.yaml", "defaultNamespace: x\n", "a/kustomization.yaml", "resources: [x.yaml]\n", "a/x.yaml", settings, "a/b/kustomization.yaml", "resources: []\n", "a/b/y.yaml", strings.Replace(settings, "settings", "y", 1)}, more...)...), "\n")
	}
	require.Equal(t, 1, strings.Count(tree(), unnamed))
	for name, more := range map[string][]string{
		"it is named":               {"a/b/kustomization.yaml", "resources: [y.yaml]\n"},
		"the kustomization is none": {"a/b/kustomization.yaml", "resources: [\n"},
		"a chart's":                 {"a/b/Chart.yaml", "apiVersion: v2\nname: b\nversion: 1.0.0\n"},
	} {
		require.NotContains(t, tree(more...), unnamed, name)
	}
	require.Equal(t, 1, strings.Count(tree("a/b/fleet.yaml", "defaultNamespace: x\n"), unnamed), "a bundle in a bundle says it by itself")
}

// Where a GitRepo may take a folder above for the bundle's, leaving the folder is a doubt
// and no error; with paths that say otherwise, or nothing there, it is one.
func TestLintKustomizationsLeaveTheirFolder(t *testing.T) {
	for want, o := range map[string]Options{"warning": {}, "error": {BundleScan: BundleScan{Paths: []string{"a"}}}} {
		tree := []string{"a/fleet.yaml", "defaultNamespace: x\n", "a/kustomization.yaml", "resources: [../base]\n",
			"base/kustomization.yaml", "resources: [x.yaml]\n", "base/x.yaml", settings}
		const leaves = "a/kustomization.yaml:1:13: %s: ../base is outside the bundle's folder, and only the folder's contents go to the cluster [kustomize-path]"
		require.Contains(t, lintOne(t, o, tree...), fmt.Sprintf(leaves, want))
		require.Contains(t, lintOne(t, o, tree[:4]...), fmt.Sprintf(leaves, "error"))
	}
}

// What kustomize quotes may be a secret, also where an error begins with it.
func TestKustomizeWordsQuoteNothing(t *testing.T) {
	for _, text := range []string{"`hunter2`", "[hunter2]", "cannot read `hunter2`", "\nhunter2", "bad: [hunter2]", "bad\nhunter2"} {
		if text[0] != '\n' { // blanks around an error are no part of it
			assert.NotContains(t, kustomizeWords(errors.New(text)), "hunter2", text)
		}
		assert.NotContains(t, kustomizeWords(errors.New("a "+text)), "hunter2", text)
	}
	assert.Equal(t, "no such file", kustomizeWords(errors.New("no such file")))
}
