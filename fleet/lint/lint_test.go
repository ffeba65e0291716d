package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/kube/helm"
)

const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"

func lintOne(t *testing.T, o Options, pairs ...string) []string {
	t.Helper()
	r, err := Run(t.Context(), files(pairs...), o)
	require.NoError(t, err)
	out := []string{}
	for _, f := range r.AtLeast(Warning).Findings {
		out = append(out, f.String())
	}
	return out
}

func TestLintObeysComments(t *testing.T) {
	r, err := Run(t.Context(), files(
		"a/fleet.yaml", "owner: lab # fleet-lint: ignore=unknown-key read by our inventory\n# fleet-lint: ignore=unknown-key,key-case it too\nteam: lab\nplace: lab # fleet-lint: ignore=unknown-key\n",
		"a/cm.yaml", settings,
		"b/fleet.yaml", "# fleet-lint: ignore-file=unknown-key an experiment\nx1: 1\nx2: 2\n", "b/cm.yaml", strings.Replace(settings, "settings", "b", 1),
	), Options{})
	require.NoError(t, err)
	require.Equal(t, 4, r.Suppressed)
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Rule))
	}
	require.Equal(t, []string{"a/fleet.yaml:4 lint-ignore", "a/fleet.yaml:4 unknown-key"}, got, "a comment without a reason does not count")
	require.Contains(t, r.Summary(), "1 error, 1 warning, 4 suppressed")
}

func sample(t *testing.T) *Report {
	r, err := Run(t.Context(), files("apps/web/fleet.yaml", "defaultNamespace: web\ntargetCustomizations:\n- clusterName: lab\n  patches: []\n",
		"apps/web/web.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: web\nspec: {template: {spec: {\n  containers: [\n    {name: web, image: nginx}]}}}\n"), Options{})
	require.NoError(t, err)
	return r
}

func TestLintText(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample(t).Text(&b))
	require.Equal(t, `apps/web/fleet.yaml:4:3: error: fleet.yaml knows no key "patches" in targetCustomizations[0]: it is dropped silently [unknown-key]
    correct the key, or remove it
apps/web/web.yaml:7:24: warning: Job web: image nginx has no tag, which means latest [image-unpinned]
    name a version, better with its digest
`, b.String())
}

func TestLintJSON(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample(t).JSON(&b))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 2)
	var f map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &f))
	require.Equal(t, map[string]any{"rule": "unknown-key", "severity": "error", "file": "apps/web/fleet.yaml", "line": 4.0, "column": 3.0,
		"message": `fleet.yaml knows no key "patches" in targetCustomizations[0]: it is dropped silently`, "cure": "correct the key, or remove it"}, f)
}

func TestLintSARIF(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample(t).SARIF(&b, "gitops/"))
	report, err := sarif.FromBytes(b.Bytes())
	require.NoError(t, err)
	require.NoError(t, report.Validate(), "SARIF's own schema")
	run := report.Runs[0]
	require.Len(t, run.Tool.Driver.Rules, len(Rules()))
	require.Len(t, run.Results, 2)
	at := run.Results[0].Locations[0].PhysicalLocation
	require.Equal(t, "gitops/apps/web/fleet.yaml", *at.ArtifactLocation.URI)
	require.Equal(t, 4, *at.Region.StartLine)
	require.Equal(t, "unknown-key", *run.Results[0].RuleID)
	require.Equal(t, "unknown-key", *run.Tool.Driver.Rules[run.Results[0].RuleIndex].ID)
}

// Names and texts of a repository are shown, and do not write on the terminal.
func TestLintForgesNoLines(t *testing.T) {
	r, err := Run(t.Context(), files("a\x1b[2K\nb/fleet.yaml", "defaultNamespace: x\n\"own\\e[31mer\\u202E\": me\n", "a\x1b[2K\nb/x.yaml", settings,
		"a b/fleet.yaml", "owner: me\n", "a b/x.yaml", settings), Options{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.Text(&b))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\u202e")
	require.Contains(t, b.String(), `a\x1b[2K\nb/fleet.yaml:2:1: error: fleet.yaml knows no key "own\x1b[31mer\u202e"`)
	require.NoError(t, r.JSON(&b))
	require.NotContains(t, b.String(), "\x1b")
	b.Reset()
	require.NoError(t, r.SARIF(&b, ""))
	report, err := sarif.FromBytes(b.Bytes())
	require.NoError(t, err)
	require.NoError(t, report.Validate())
	var at []string
	for _, result := range report.Runs[0].Results {
		at = append(at, *result.Locations[0].PhysicalLocation.ArtifactLocation.URI)
	}
	require.Contains(t, at, "a%1B%5B2K%0Ab/fleet.yaml")
	require.Contains(t, at, "a%20b/fleet.yaml")
}

// Many findings of one rule do not hide the one of another; what is in examples is a
// line a rule.
func TestLintTextIsShort(t *testing.T) {
	var tree []string
	for i := range 20 {
		tree = append(tree, fmt.Sprintf("examples/%02d/fleet.yaml", i), "owner: me\n", fmt.Sprintf("examples/%02d/x.yaml", i), strings.Replace(settings, "settings", fmt.Sprint("e", i), 1))
		tree = append(tree, fmt.Sprintf("apps/%02d/fleet.yaml", i), "defaultNamespace: x\n", fmt.Sprintf("apps/%02d/x.yaml", i),
			fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c%d}\n", i))
	}
	tree = append(tree, "apps/z/fleet.yaml", "owner: me\n", "apps/z/x.yaml", settings)
	r, err := Run(t.Context(), files(tree...), Options{})
	require.NoError(t, err)
	require.Len(t, r.Findings, 41)
	var b bytes.Buffer
	require.NoError(t, r.Text(&b))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Equal(t, []string{
		`apps/z/fleet.yaml:1:1: error: fleet.yaml knows no key "owner": it is dropped silently [unknown-key]`,
		"    correct the key, or remove it",
		`examples/: error: 20 times; first examples/00/fleet.yaml:1:1: fleet.yaml knows no key "owner": it is dropped silently [unknown-key]`,
		"apps/00/x.yaml:1:1: warning: PersistentVolumeClaim c0 is deleted with the bundle, including its data [claim-deleted]",
	}, lines[:4])
	require.Len(t, lines, 3+2*lintShown+1)
	require.Equal(t, "... and 15 more of [claim-deleted] in 15 files: -json and -sarif list all", lines[len(lines)-1])
}

// Shapes of good repositories that a linter is tempted to cry about.
func TestLintRaisesNoFalseAlarm(t *testing.T) {
	chart := []string{"a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n", "a/values.yaml", "replicas: 1\n", "a/templates/x.yaml", "{{- if .Values.on }}\nkind: ClusterRole\n{{- end }}\nreplicas: {{ .Values.replicas }}\n"}
	for name, c := range map[string]struct {
		opt   Options
		files []string
	}{
		"a chart beside its fleet.yaml, empty helm keys": {files: append(chart, "a/fleet.yaml", "namespace: x\nhelm:\n  releaseName: a\n  chart: \"\"\n  repo: \"\"\n  version: \"\"\n  force: false\n  timeoutSeconds: 0\n  values:\n    replicas: 2\n")},
		"overlays in targets": {files: []string{"a/fleet.yaml", "targetCustomizations:\n- clusterSelector: {matchLabels: {env: dev}}\n  yaml:\n    overlays: [one, two]\n", "a/sub/x.yaml", settings,
			"a/overlays/one/sub/x_patch.yaml", "data: {a: b}\n", "a/overlays/two/more.yaml", strings.Replace(settings, "settings", "more", 1)}},
		"kustomization of the base in a target": {files: []string{"a/fleet.yaml", "targetCustomizations:\n- clusterSelector: {matchLabels: {env: dev}}\n  kustomize:\n    dir: overlays/dev\n",
			"a/base/kustomization.yaml", "resources: [x.yaml]\n", "a/base/x.yaml", settings, "a/overlays/dev/kustomization.yaml", "resources:\n- ../../base\npatches:\n- path: p.yaml\n", "a/overlays/dev/p.yaml", settings}},
		"a chart by URL with kustomize":  {files: []string{"a/fleet.yaml", "helm:\n  chart: https://example.com/a-0.0.1.tgz\nkustomize:\n  dir: overlays/dev\n", "a/overlays/dev/kustomization.yaml", "resources: [x.yaml]\n", "a/overlays/dev/x.yaml", settings}},
		"charts by git and by shorthand": {files: []string{"a/fleet.yaml", "helm:\n  chart: git::https://example.com/charts.git//a?ref=v1\n", "b/fleet.yaml", "helm:\n  chart: github.com/example/charts//b\n", "c/fleet.yaml", "helm:\n  chart: git@example.com:charts.git//c\n"}},
		"an unquoted tag among values":   {files: append(chart, "a/fleet.yaml", "targetCustomizations:\n- clusterSelector: {}\n  helm:\n    values:\n      image: {tag: 2004}\n")},
		"annotations of a bundle":        {files: []string{"a/fleet.yaml", "annotations: {note: words}\npaused: yes\n", "a/x.yaml", settings}},
		"a newer key":                    {files: []string{"a/fleet.yaml", "createNamespace: false\ntargetCustomizations:\n- clusterName: x\n  serviceAccount: web\n", "a/x.yaml", settings}},
		"names that Fleet makes up": {files: []string{"apps/db/fleet.yaml", "keepResources: true\n", "apps/db/x.yaml", settings,
			"apps/web/fleet.yaml", "dependsOn:\n- name: lab-apps-db\n  acceptedStates: [Ready, Modified]\n", "apps/web/x.yaml", strings.Replace(settings, "settings", "web", 1)}},
		"a made-up name with a checksum": {files: []string{"apps/My_Db/fleet.yaml", "keepResources: true\n", "apps/My_Db/x.yaml", settings,
			"apps/web/fleet.yaml", "dependsOn:\n- name: " + bundleName("lab", "apps/My_Db") + "\n", "apps/web/x.yaml", strings.Replace(settings, "settings", "web", 1)}},
		"selectors over Fleet's own labels":   {files: []string{"a/fleet.yaml", "dependsOn:\n- selector: {matchLabels: {fleet.cattle.io/repo-name: other}}\n", "a/x.yaml", settings}},
		"dashboards with their own templates": {files: []string{"a/fleet.yaml", "defaultNamespace: x\n", "a/x.yaml", settings + "data:\n  alert: 'of {{ $labels.instance }} is {{ $value }}'\n"}},
		"documents of comments, and a List":   {files: []string{"a/fleet.yaml", "defaultNamespace: x\n", "a/x.yaml", "# words\n---\n# more\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n---\n"}},
		"a template over several values":      {files: append(chart, "a/fleet.yaml", "helm:\n  values:\n    replicas: \"${ if hasKey .ClusterLabels `big` }3${ else }1${ end }\"\n")},
		"a template for clusters that have the label": {opt: Options{Clusters: []Cluster{{Name: "local", Labels: map[string]string{"site": "lab"}}}},
			files: append(chart, "a/fleet.yaml", "helm:\n  values:\n    replicas: ${ .ClusterLabels.site }\ntargetCustomizations:\n- clusterName: local\n  keepResources: true\n")},
		"shell variables, said to be none":        {files: append(chart, "a/fleet.yaml", "helm:\n  disablePreProcess: true\n  values:\n    replicas: ${HOME}\n")},
		"values that something puts secrets into": {files: append(chart, "a/fleet.yaml", "helm:\n  disablePreProcess: true\n  values:\n    replicas: {password: '$__file{/run/pw}', clientSecret: $CLIENT_SECRET9, apiKey: '$(API_KEY_1)', privateKey: 'ENC[AES256_GCM,data:Zm9v,type:str]', secretKey: 'ref+vault://kv/Pw1', adminPassword: admin, apiToken: my-api-token-1}\n")},
		"a values file of sops":                   {files: []string{"a/fleet.yaml", "helm:\n  chart: https://example.com/a-0.0.1.tgz\n  valuesFiles: [v.yaml]\n", "a/v.yaml", "db: {password: Tr0ub4dor&3}\nsops: {version: 3.9.0}\n"}},
		"labels of the local cluster":             {opt: Options{Clusters: []Cluster{{Name: "local"}}}, files: []string{"a/fleet.yaml", "targetCustomizations:\n- clusterSelector: {matchLabels: {name: local}}\n- clusterSelector: {matchLabels: {management.cattle.io/cluster-display-name: local}}\n", "a/x.yaml", settings}},
		"a cluster whose labels nobody told":      {opt: Options{Clusters: []Cluster{{Name: "gpu"}}}, files: append(chart, "a/fleet.yaml", "helm:\n  values:\n    replicas: global.fleet.clusterLabels.n\ntargetCustomizations:\n- clusterSelector: {matchLabels: {env: lab}}\n")},
		"one release in two GitRepos, perhaps":    {files: []string{"a/fleet.yaml", "helm: {releaseName: r}\n", "a/x.yaml", settings, "b/fleet.yaml", "helm: {releaseName: r}\n", "b/x.yaml", strings.Replace(settings, "settings", "b", 1)}},
		"names of secrets, not secrets":           {files: append(chart, "a/fleet.yaml", "helm:\n  values:\n    replicas: {existingSecret: a, passwordKey: b, secretName: c, tokenPath: /run/token, password: \"\", adminPassword: '${ .ClusterLabels.pw }'}\n")},
		"a Secret without data":                   {files: []string{"a/fleet.yaml", "defaultNamespace: x\n", "a/x.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: x, annotations: {from: elsewhere}}\n"}},
		"one object in two namespaces":            {opt: Options{BundleScan: BundleScan{Paths: []string{"*"}}}, files: []string{"a/fleet.yaml", "namespace: a\n", "a/x.yaml", settings, "b/fleet.yaml", "namespace: b\n", "b/x.yaml", settings}},
		"bundles beside a workflow":               {files: []string{".github/workflows/x.yaml", "on: push\n", "a/fleet.yaml", "defaultNamespace: x\n", "a/x.yaml", settings}},
		"anchors and merge keys":                  {files: []string{"a/fleet.yaml", "helm:\n  chart: https://example.com/a-0.0.1.tgz\n  values:\n    a: &a {b: 1}\n    c: {<<: *a, d: 2}\n    e: *a\n"}},
		"a template in a comment":                 {files: []string{"a/fleet.yaml", "kustomize:\n  dir: .\n", "a/x.yaml", settings + "# is {{ .Values.x }} else\n"}},
		"an image with digest, port and tag":      {files: []string{"a/fleet.yaml", "defaultNamespace: x\n", "a/x.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: p}\nspec:\n template: {spec: {containers: [{name: a, image: 'h:5000/a:1.2'}, {name: b, image: 'h:5000/b@sha256:" + strings.Repeat("ab", 32) + "'}]}}\n"}},
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, lintOne(t, c.opt, c.files...)) })
	}
}

// FLEET_LINT_REPO names a repository of somebody else's, e.g. rancher/fleet-examples:
// nothing in it is an error.
func TestLintForeignRepository(t *testing.T) {
	dir := os.Getenv("FLEET_LINT_REPO")
	if dir == "" {
		t.Skip("FLEET_LINT_REPO names no repository")
	}
	r, err := Run(t.Context(), os.DirFS(dir), Options{})
	require.NoError(t, err)
	for _, f := range r.Findings {
		t.Log(f)
	}
	require.Zero(t, r.Count(Failure))
}

// What is between the lines of one object of a file says nothing about the others.
func TestLintPlacesInLaterDocuments(t *testing.T) {
	docs, bad := manifest.Docs([]byte("# one\na: 1\n---\n\n# two\nb: {\n--- # three\nc:\n  d: 4\n"))
	require.Len(t, docs, 2)
	require.Equal(t, yamlnode.Pos{Line: 8, Col: 1}, docs[1].Root.Key("c"))
	require.Equal(t, yamlnode.Pos{Line: 9, Col: 6}, docs[1].Root.Get("c", "d").At)
	require.Len(t, bad, 1)
	require.Equal(t, 6, bad[0].At.Line)
}

// A chart that is at hand is held against the values, wherever it comes from.
func TestLintChartsAtHand(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.0\n", "values.yaml": "replicas: 1\n", "templates/x.yaml": "# {{ .Values.replicas }} {{ .Values.hidden }}\n",
		"templates/y.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\n  namespace: monitoring\n",
	} {
		file := filepath.Join(dir, "web", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	require.Equal(t, []string{
		"a/fleet.yaml:1:12: warning: the chart has objects in monitoring (web/templates/y.yaml), and namespace: web moves them [chart-sets-namespace]",
		`a/fleet.yaml:8:5: warning: the chart web 1.2.0 knows no value replicsa; did you mean "replicas"? [unknown-value]`,
	}, lintOne(t, Options{Charts: &helm.Source{Folder: dir, Offline: true}}, "a/fleet.yaml",
		"namespace: web\nhelm:\n  repo: https://charts.example.com\n  chart: web\n  version: 1.2.0\n  values:\n    hidden: 1\n    replicsa: 2\n"))
}

// A small file that unfolds to gigabytes is named, and the rest is judged.
func TestLintDoesNotDrown(t *testing.T) {
	deep := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: " + strings.Repeat("[", 100_000)
	found := lintOne(t, Options{}, "a/fleet.yaml", "defaultNamespace: x\nowner: me\n", "a/deep.yaml", deep+"\n", "a/anchors.yaml", strings.Repeat("a: &a 1\n", 25_000),
		"a/long.yaml", strings.Replace(settings, "metadata", "kinds: {}\nmetadata", 1)+"data:\n"+strings.Repeat("  a: b\n", 25_000))
	require.Equal(t, []string{
		"a/anchors.yaml:1001:4: warning: this document is not checked: more than 1000 anchors, aliases and tags [unread]",
		"a/deep.yaml:4:206: warning: this document is not checked: nested more than 200 deep [unread]",
		`a/fleet.yaml:2:1: error: fleet.yaml knows no key "owner": it is dropped silently [unknown-key]`,
		"a/long.yaml:1:1: error: ConfigMap settings has no field kinds; did you mean kind? [unknown-field]",
	}, found)
}

// What keeps a kustomization from being built is named where it is, with its reason, and
// not in what nobody sees alone.
func TestLintNamesWhatIsNotBuilt(t *testing.T) {
	bomb := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("  a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	for text, why := range map[string]string{
		bomb:      "document contains excessive aliasing",
		"a: [b\n": "",
		settings + "x: [" + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "]\n": "nested more than 200 deep",
	} {
		r, err := Run(t.Context(), files("a/fleet.yaml", "defaultNamespace: x\n", "a/kustomization.yaml", "resources: [b.yaml]\n", "a/b.yaml", text), Options{})
		require.NoError(t, err)
		var unread, unbuilt []Finding
		for _, f := range r.Findings {
			switch f.Rule {
			case "unread":
				unread = append(unread, f)
			case "kustomize-unread":
				unbuilt = append(unbuilt, f)
			}
		}
		require.Len(t, unread, 1, "%v", r.Findings)
		require.Equal(t, "a/b.yaml", unread[0].File)
		require.Equal(t, Warning, unread[0].Severity)
		require.Contains(t, unread[0].Message, why)
		require.Len(t, unbuilt, 1)
		require.Contains(t, unbuilt[0].Message, "a/b.yaml cannot be read: "+why)
	}
}

func FuzzLint(f *testing.F) {
	for _, r := range Rules() {
		fleetYAML, _ := os.ReadFile("testdata/rules/" + r.ID + "/bad/app/fleet.yaml")
		f.Add(string(fleetYAML), settings)
	}
	for _, s := range []string{"name: 1\nlabels: {a: 1, b: yes, c: 1.10, d: null}\n", "namespace: 1\n", "paused: yes\nhelm: {timeoutSeconds: 010, atomic: on, version: 1.10}\n", "targetCustomizations: [{name: 2004, clusterName: 1, clusterSelector: {matchLabels: {a: 1}}}]\n", "rolloutStrategy: {maxUnavailable: 10%, maxNew: 1.5}\n", "imageScans: [{name: 1, interval: 5s}]\n", "helm: {templateValues: {a: 1}, values: [1]}\n", "annotations: {a: 1}\n", "helm: []\n", "dependsOn: {}\n", "- a\n", "a\n"} {
		f.Add(s, settings)
	}
	f.Add("helm:\n  values:\n    a: ${ range until 1000000000 }${ end }\n", "a: &a [*a]")
	f.Fuzz(func(t *testing.T, fleetYAML, manifest string) {
		r, err := Run(t.Context(), files("a/fleet.yaml", fleetYAML, "a/x.yaml", manifest, "a/values.yaml", manifest, "a/.fleetignore", manifest),
			Options{Clusters: []Cluster{{Name: "local", Labels: map[string]string{"a": "b"}}}})
		require.NoError(t, err)
		fits := decodeFleetYAML([]byte(fleetYAML), &v1alpha1.FleetYAML{}) == nil
		for _, f := range r.Findings {
			require.NotEmpty(t, f.Message)
			if f.Rule == "wrong-type" && !strings.Contains(f.Message, "targetCustomizationMode") {
				require.False(t, fits, "Fleet takes it, and we say %s", f)
			}
			require.Contains(t, []string{"a/fleet.yaml", "a/x.yaml", "a/values.yaml", "a/.fleetignore", "a"}, f.File)
		}
	})
}
