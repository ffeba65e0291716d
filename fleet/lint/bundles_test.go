package lint

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The expected names are those of Fleet's own tests (internal/names/name_test.go).
func TestBundleNameIsFleets(t *testing.T) {
	for in, want := range map[string]string{
		"12345678901234567890123456789012345678901234567890123":            "12345678901234567890123456789012345678901234567890123",
		"12345678901234567890123456789012345678901234567890123a":           "12345678901234567890123456789012345678901234567-fdba4",
		"123456789012345678901234567890123456789012345678901234567890123a": "12345678901234567890123456789012345678901234567-eb12d",
		"long-name-test-shortpath-with@char":                               "long-name-test-shortpath-with-char-031bab5e",
		"long-name-test-0.App_ ":                                           "long-name-test-0-app-5bf6b3fb",
		"long-name-test--App_-_12.factor":                                  "long-name-test-app-12-factor-0efbac37",
		"bundle.name.example.com":                                          "bundle-name-example-com-645ef821",
		"1234567890123456789012345678901234567890123456-1234567":           "1234567890123456789012345678901234567890123456-1234567"[:46] + "-d0bce",
	} {
		require.Equal(t, want, helmReleaseName(in), in)
	}
	require.Equal(t, "lab-apps-hub", bundleName("lab", "apps/hub"))
	require.Equal(t, "lab", bundleName("lab", "."))
}

func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func names(bundles []BundleSource) (out []string) {
	for _, b := range bundles {
		require := "@"
		out = append(out, b.Name+require+b.Dir)
	}
	return out
}

func TestReadBundlesFindsWhatFleetFinds(t *testing.T) {
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	repo := files(
		"README.md", "words",
		"apps/hub/fleet.yaml", "defaultNamespace: hub\nlabels: {tier: app}\n", "apps/hub/cm.yaml", cm,
		"apps/hub/sub/fleet.yml", "name: sub\n", "apps/hub/sub/cm.yaml", cm,
		"apps/empty/fleet.yaml", "defaultNamespace: x\n",
		"plain/deep/cm.yaml", cm,
		".git/config.yaml", cm,
	)
	found, err := ReadBundles(repo, BundleScan{GitRepo: "lab", Paths: []string{"apps"}})
	require.NoError(t, err)
	require.Equal(t, []string{"lab-apps-hub@apps/hub", "sub@apps/hub/sub"}, names(found))
	require.Equal(t, "hub", found[0].YAML.DefaultNamespace)
	require.Equal(t, "app", found[0].YAML.Labels["tier"])
	require.Equal(t, "cm.yaml", found[0].Resources[0].Name)
	require.Len(t, found[0].Resources, 3, "nested bundles' files are carried too")

	found, err = ReadBundles(repo, BundleScan{GitRepo: "lab"})
	require.NoError(t, err)
	require.Equal(t, "lab@.", names(found)[0], "plain/deep has no fleet.yaml: the root becomes a bundle")

	found, err = ReadBundles(repo, BundleScan{GitRepo: "lab", Bundles: []BundlePath{{Base: "plain/deep"}, {Base: "apps/hub", Options: "sub/fleet.yml"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"lab-plain-deep@plain/deep", "sub@apps/hub"}, names(found))

	found, err = ReadBundles(files("hub/fleet.yaml", "helm: {repo: https://example.com, chart: hub, version: 1.0.0}\n"), BundleScan{GitRepo: "lab"})
	require.NoError(t, err)
	require.Equal(t, []string{"lab-hub@hub"}, names(found), "the chart's files are its resources")

	_, err = ReadBundles(repo, BundleScan{GitRepo: "lab", Paths: []string{"nothing"}})
	require.ErrorContains(t, err, "no resource found")
}

func TestReadBundlesSkipsWhatFleetSkips(t *testing.T) {
	repo := files(
		"a/fleet.yaml", "helm:\n  chart: chart\n  valuesFiles: [values.yaml, ../common.yaml]\n  values: {a: 1, c: {d: 1}}\n",
		"a/values.yaml", "a: 2\n", "common.yaml", "c: {e: 2}\n",
		"a/chart/Chart.yaml", "name: chart\nversion: 0.1.0\n", "a/chart/templates/x.yaml", "{{ 1 }}",
		"a/.fleetignore", "*.md\n# words\ndocs/*\n", "a/README.md", "", "a/docs/x.yaml", "", "a/.hidden/x.yaml", "",
	)
	found, err := ReadBundles(repo, BundleScan{GitRepo: "r", Paths: []string{"/a/"}})
	require.NoError(t, err)
	var got []string
	for _, f := range found[0].Resources {
		got = append(got, f.Name)
	}
	require.Equal(t, []string{"chart/Chart.yaml", "chart/templates/x.yaml"}, got)
	values, err := found[0].Values(repo)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": float64(2), "c": map[string]any{"d": float64(1), "e": float64(2)}}, values, "files win over fleet.yaml")
}

// Where Fleet's reading is not what one would think. The lab reads by itself, and its test
// sim/lab/fleetread compares both readings.
func TestReadBundlesIsAsOddAsFleet(t *testing.T) {
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	repo := files("app/fleet.yaml", "", "app/x.yaml", cm, "app/.fleetignore", "y.yaml\n", "app/y.yaml", cm, "app-two/x.yaml", cm, "app-two/y.yaml", cm)
	for name, c := range map[string]struct {
		scan BundleScan
		want []string
		err  string
	}{
		"a slash is not a path":                     {scan: BundleScan{Paths: []string{"/"}}, err: "no resource found"},
		"nothing follows a pattern's last slash":    {scan: BundleScan{Paths: []string{"*/"}}, err: "no resource found"},
		"a star is not the root":                    {scan: BundleScan{Paths: []string{"*"}}, want: []string{"lab-app@app", "lab-app-two@app-two"}},
		"one bad path is all":                       {scan: BundleScan{Paths: []string{"app", "["}}, err: "invalid path glob ["},
		"a fleet.yaml that is named is in the name": {scan: BundleScan{Bundles: []BundlePath{{Base: "app", Options: "fleet.yaml"}}}, want: []string{"lab-app-fleet@app"}},
		"a slash leads out of the repository":       {scan: BundleScan{Bundles: []BundlePath{{Base: "/app"}}}, err: "no resource found"},
	} {
		t.Run(name, func(t *testing.T) {
			c.scan.GitRepo = "lab"
			found, err := ReadBundles(repo, c.scan)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, names(found))
		})
	}
	found, err := ReadBundles(files("x.yaml", cm, "app/.fleetignore", "y.yaml\n", "app/y.yaml", cm, "app-two/y.yaml", cm, "two/y.yaml", cm), BundleScan{GitRepo: "lab"})
	require.NoError(t, err)
	var got []string
	for _, f := range found[0].Resources {
		got = append(got, f.Name)
	}
	require.Equal(t, []string{"two/y.yaml", "x.yaml"}, got, "what app says holds in app-two")

	for _, refused := range []string{"labels: {a: 1}\n", "name: 2004\n", "annotations: {a: 1}\n", "imageScans: [{image: a, tagName: b}]\n", "helm: {chart: nowhere}\n", "helm: {repo: 'https://example.com'}\n"} {
		found, err := ReadBundles(files("a/fleet.yaml", refused, "a/x.yaml", cm), BundleScan{GitRepo: "lab"})
		require.NoError(t, err)
		require.Error(t, found[0].Err, refused)
	}
	found, err = ReadBundles(files("a/x.yaml", cm, "a/chart/Chart.yaml", "name: {{ .Name }}\n"), BundleScan{GitRepo: "lab"})
	require.NoError(t, err)
	require.ErrorContains(t, found[0].Err, "cannot load a/chart/Chart.yaml", "no matter that nothing deploys it")
}
