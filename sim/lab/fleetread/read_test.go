package fleetread_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
)

const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// repository makes one of lines NAME or NAME=CONTENT; without content a file is an object.
func repository(lines ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, line := range lines {
		name, content, given := strings.Cut(line, "=")
		if !given {
			content = object
		}
		out[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return out
}

// found says what was read, a line a bundle: its name, its folder, and its files.
func found(bundles []fleetread.Bundle) []string {
	out := []string{}
	for _, b := range bundles {
		out = append(out, b.Name+" "+b.Dir+": "+strings.Join(slices.Sorted(maps.Keys(b.Files)), " "))
	}
	return out
}

func TestWhatBecomesABundle(t *testing.T) {
	repo := repository("apps/hub/fleet.yaml=defaultNamespace: hub", "apps/hub/cm.yaml", "apps/hub/sub/fleet.yml=name: sub", "apps/hub/sub/cm.yaml",
		"apps/empty/fleet.yaml=", "apps/words/README.md=", "plain/deep/cm.yaml", ".git/config.yaml", ".ci/fleet.yaml=", ".ci/job.yaml")
	for name, c := range map[string]struct {
		source fleetread.Source
		want   []string
		err    string
	}{
		"everything: plain/deep has no options, so the root is one": {want: []string{
			"lab .: apps/empty/fleet.yaml apps/hub/cm.yaml apps/hub/fleet.yaml apps/hub/sub/cm.yaml apps/hub/sub/fleet.yml apps/words/README.md plain/deep/cm.yaml",
			"lab-apps-hub apps/hub: cm.yaml sub/cm.yaml sub/fleet.yml", "sub apps/hub/sub: cm.yaml fleet.yml"}},
		"a folder":                            {source: fleetread.Source{Paths: []string{"/apps/"}}, want: []string{"lab-apps-hub apps/hub: cm.yaml sub/cm.yaml sub/fleet.yml", "sub apps/hub/sub: cm.yaml fleet.yml"}},
		"a pattern":                           {source: fleetread.Source{Paths: []string{"p*"}}, want: []string{"lab-plain plain: deep/cm.yaml"}},
		"one folder twice":                    {source: fleetread.Source{Paths: []string{"plain", "./plain"}}, want: []string{"lab-plain plain: deep/cm.yaml"}},
		"a slash is nothing":                  {source: fleetread.Source{Paths: []string{"/"}}, err: "no resource found"},
		"nor is what follows a pattern":       {source: fleetread.Source{Paths: []string{"apps/*/"}}, err: "no resource found"},
		"no pattern":                          {source: fleetread.Source{Paths: []string{"plain", "a["}}, err: "syntax error in pattern"},
		"a way up":                            {source: fleetread.Source{Paths: []string{"apps/../plain"}}, err: "does not play this: a way up"},
		"a folder that the GitRepo names":     {source: fleetread.Source{Bundles: []fleetread.Driven{{Base: "plain"}}}, want: []string{"lab-plain plain: deep/cm.yaml"}},
		"and its options":                     {source: fleetread.Source{Bundles: []fleetread.Driven{{Base: "apps/hub", Options: "fleet.yaml"}}}, want: []string{"lab-apps-hub-fleet apps/hub: cm.yaml sub/cm.yaml sub/fleet.yml"}},
		"a fleet.yml that it names":           {source: fleetread.Source{Bundles: []fleetread.Driven{{Base: "apps/hub", Options: "sub/fleet.yml"}}}, want: []string{"sub apps/hub: cm.yaml sub/cm.yaml"}},
		"options that are not there":          {source: fleetread.Source{Bundles: []fleetread.Driven{{Base: "plain", Options: "dev.yaml"}}}, err: `failed to open file "dev.yaml"`},
		"a slash is of the job's own machine": {source: fleetread.Source{Bundles: []fleetread.Driven{{Base: "/plain"}}}, err: "no resource found"},
	} {
		t.Run(name, func(t *testing.T) {
			c.source.Name = "lab"
			bundles, err := fleetread.Read(repo, c.source)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				assert.Empty(t, bundles)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, found(bundles))
		})
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	bundles, err := fleetread.Read(repository("a/.fleetignore=*.md\n# words\ndocs/*\nsecret\\ \n", "a/x.yaml", "a/x.md=", "a/docs/y.yaml", "a/deep/docs/y.yaml",
		"a/.hidden/y.yaml", "a/app/.fleetignore=y.yaml", "a/app/y.yaml", "a/app/z.yaml", "a/app-two/y.yaml", "a/two/y.yaml"), fleetread.Source{Name: "lab", Paths: []string{"a"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"lab-a a: app/z.yaml two/y.yaml x.yaml"}, found(bundles), "what app says holds in app-two: Fleet compares beginnings")

	_, err = fleetread.Read(repository("a/.fleetignore=[", "a/x.yaml"), fleetread.Source{Name: "lab"})
	require.ErrorContains(t, err, "syntax error in pattern")
}

func TestNamesFitARelease(t *testing.T) {
	for dir, want := range map[string]string{"apps/hub": "lab-apps-hub", "a--b": "lab-a-b"} {
		bundles, err := fleetread.Read(repository(dir+"/x.yaml"), fleetread.Source{Name: "lab", Bundles: []fleetread.Driven{{Base: dir}}})
		require.NoError(t, err)
		assert.Equal(t, want, bundles[0].Name)
	}
	// From Fleet's own tests (internal/names/name_test.go): its answers, not ours.
	for dir, want := range map[string]string{
		"12345678901234567890123456789012345678901234567890123":  "12345678901234567890123456789012345678901234567890123",
		"12345678901234567890123456789012345678901234567890123a": "12345678901234567890123456789012345678901234567-fdba4",
		"long-name-test-shortpath-with@char":                     "long-name-test-shortpath-with-char-031bab5e",
		"long-name-test-0.App_ ":                                 "long-name-test-0-app-5bf6b3fb",
		"long-name-test--App_-_12.factor":                        "long-name-test-app-12-factor-0efbac37",
		"1234567890123456789012345678901234567890123456-1234567": "1234567890123456789012345678901234567890123456-d0bce",
	} {
		bundles, err := fleetread.Read(repository(dir+"/x.yaml"), fleetread.Source{Bundles: []fleetread.Driven{{Base: dir}}})
		require.NoError(t, err)
		assert.Equal(t, want, bundles[0].Name)
	}
}

func TestValuesFilesAreLaidOverValues(t *testing.T) {
	repo := repository("a/fleet.yaml=helm: {chart: chart, valuesFiles: [v/values.yaml, ../common.yaml], values: {a: 1, c: {d: 1}, z: {m: 1}}}",
		"a/v/values.yaml={a: 2, z: null}", "common.yaml=c: {e: 2}", "a/values.yaml=a: 3", "a/chart/Chart.yaml={name: chart, version: 0.1.0}", "a/chart/values.yaml=a: 0")
	bundles, err := fleetread.Read(repo, fleetread.Source{Name: "lab", Paths: []string{"a"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"lab-a a: chart/Chart.yaml chart/values.yaml"}, found(bundles), "a values file is left out under its bare name, too")
	release, err := bundles[0].Release()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": 2.0, "c": map[string]any{"d": 1.0, "e": 2.0}, "z": nil}, release.Values)
	assert.Equal(t, []string{"Chart.yaml", "values.yaml"}, slices.Sorted(maps.Keys(release.Files)))

	_, err = fleetread.Read(repository("fleet.yaml=helm: {chart: chart, valuesFiles: [no.yaml]}", "chart/Chart.yaml={name: chart}"), fleetread.Source{Name: "lab"})
	require.ErrorContains(t, err, "reading values file: ./no.yaml")
	_, err = fleetread.Read(repository("fleet.yaml=helm: {valuesFiles: [no.yaml]}", "Chart.yaml={name: chart, version: 0.1.0}"), fleetread.Source{Name: "lab"})
	require.NoError(t, err, "where the bundle names no chart, nothing reads them")
}

func TestWhatHelmIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		files  []string
		remote *fleetread.Remote
		want   string // the files of the chart
	}{
		"manifests": {files: []string{"fleet.yaml=", "b.yml", "c.json={}", "d.txt=", "templates/e.yaml", "sub/f.yaml", "inner/fleet.yaml=", "inner/g.yaml", "chart/Chart.yaml={name: x, version: 1.0.0}"},
			want: "Chart.yaml raw-yaml/b.yml raw-yaml/c.json raw-yaml/sub/f.yaml templates/e.yaml"},
		"a chart in the folder itself": {files: []string{"fleet.yaml=", "Chart.yaml={name: x, version: 1.0.0}", "templates/a.yaml"}, want: "Chart.yaml templates/a.yaml"},
		"one below it":                 {files: []string{"fleet.yaml=helm: {chart: ./charts/x}", "charts/x/Chart.yaml={name: x, version: 1.0.0}", "a.yaml"}, want: "Chart.yaml"},
		"a repository":                 {files: []string{"fleet.yaml=helm: {repo: 'https://example.com', chart: x, version: 1.0.0}", "a.yaml"}, remote: &fleetread.Remote{Repo: "https://example.com", Chart: "x", Version: "1.0.0"}},
		"a folder beside a repository": {files: []string{"fleet.yaml=helm: {repo: 'https://example.com', chart: x, version: 1.0.0}", "x/Chart.yaml={name: x, version: 0.1.0}"}, want: "Chart.yaml"},
		"a registry":                   {files: []string{"fleet.yaml=helm: {repo: 'oci://example.com/y/x', version: 1.0.0}"}, remote: &fleetread.Remote{Repo: "oci://example.com/y/x", Chart: "x", Version: "1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			bundles, err := fleetread.Read(repository(c.files...), fleetread.Source{Name: "lab", Paths: []string{"."}})
			require.NoError(t, err)
			release, err := bundles[0].Release()
			require.NoError(t, err)
			assert.Equal(t, c.remote, release.Remote)
			assert.Equal(t, c.want, strings.Join(slices.Sorted(maps.Keys(release.Files)), " "))
			assert.Equal(t, "lab default", release.Name+" "+release.Namespace)
		})
	}
}

// TestWhatIsNotPlayedIsSaid: passing over it would call a wrong repository right.
func TestWhatIsNotPlayedIsSaid(t *testing.T) {
	for options, want := range map[string]string{
		"targetCustomizations: [{name: a, clusterName: local}]": "targetCustomizations, targets",
		"overrideTargets: [{clusterName: local}]":               "overrideTargets",
		"yaml: {overlays: [a]}":                                 "yaml",
		"kustomize: {dir: a}":                                   "kustomize",
		"paused: true":                                          "paused",
		"serviceAccount: me":                                    "serviceAccount",
		"helm: {valuesFrom: [{secretKeyRef: {name: a}}]}":       "helm.valuesFrom",
		"helm: {templateValues: {a: b}}":                        "helm.templateValues",
		"helm: {values: {a: '${ .ClusterName }'}}":              "is a template",
		"helm: {values: {a: global.fleet.clusterLabels.x}, disablePreProcess: true}":      "labels of the cluster",
		"helm: {values: {a: '${HOME}'}, disablePreProcess: true}":                         "",
		"{paused: false, helm: {atomic: false}, correctDrift: {enabled: false}}":          "",
		"{correctDrift: {enabled: true}}":                                                 "correctDrift",
		"{namespace: a, defaultNamespace: b, namespaceLabels: {a: b}, name: x}":           "",
		"diff: {comparePatches: [{kind: A, apiVersion: v1, operations: [{op: remove}]}]}": "",
	} {
		bundles, err := fleetread.Read(repository("a/fleet.yaml="+options, "a/x.yaml"), fleetread.Source{Name: "lab"})
		require.NoError(t, err, options)
		_, err = bundles[0].Release()
		if want == "" {
			require.NoError(t, err, options)
			continue
		}
		var unknown *fleetread.Unknown
		require.ErrorAs(t, err, &unknown, options)
		assert.Contains(t, unknown.What, want)
	}
	for want, repo := range map[string]fs.FS{
		"kustomization.yaml":   repository("kustomization.yaml=resources: [x.yaml]", "x.yaml"),
		"a symbolic link":      fstest.MapFS{"x.yaml": {Data: []byte("y.yaml"), Mode: fs.ModeSymlink}, "y.yaml": {Data: []byte(object)}},
		"fetched for that one": repository("Chart.yaml={name: a, version: 1.0.0, dependencies: [{name: b, repository: 'https://example.com'}]}"),
		"a second bundle a":    repository("a/fleet.yaml=name: a", "a/x.yaml", "b/fleet.yaml=name: a", "b/x.yaml"),
		"without a repositor":  repository("fleet.yaml=helm: {chart: 'https://example.com/x.tgz'}"),
	} {
		bundles, err := fleetread.Read(repo, fleetread.Source{Name: "lab"})
		if err == nil {
			_, err = bundles[0].Release()
		}
		var unknown *fleetread.Unknown
		require.ErrorAs(t, err, &unknown, want)
		assert.Contains(t, err.Error(), want)
	}
}

// TestWhatFleetRefuses: one bundle is enough, and none is made.
func TestWhatFleetRefuses(t *testing.T) {
	for options, want := range map[string]string{
		"labels: [a]":     "reading fleet.yaml",
		"annotations: a":  "reading fleet.yaml as metadata",
		"dependsOn: [{}]": "dependsOn[0]: must specify",
		"dependsOn: [{name: a, acceptedStates: [X]}]": `invalid state "X"`,
		"imageScans: [{image: a, tagName: b}]":        "imagescan is disabled",
		"helm: {chart: x}":                            "cannot load values.yaml",
		"helm: {chart: nowhere}":                      "no such file",
		"helm: {repo: 'https://example.com'}":         "no chart name",
	} {
		bundles, err := fleetread.Read(repository("a/fleet.yaml="+options, "a/x.yaml", "b/fleet.yaml=", "b/x.yaml",
			"a/x/Chart.yaml={apiVersion: v2, name: x, version: 1.0.0}", "a/x/values.yaml="+map[bool]string{true: "[1]"}[strings.Contains(options, "chart: x")]), fleetread.Source{Name: "lab"})
		require.ErrorContains(t, err, want, options)
		assert.Empty(t, bundles)
	}
}
