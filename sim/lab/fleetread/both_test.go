package fleetread_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/fleet/lint"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/sim/lab/fleetread"
)

// The two readings of Fleet's source, that of package fleet and the lab's, know nothing
// of each other. Here they are held against each other: where they differ, one of them
// is wrong about Fleet, and its source says which.

// theirs is what a reading came to, in text.
func theirs(repo fs.FS, s fleetread.Source) (string, error) {
	bundles, err := fleetread.Read(repo, s)
	if err != nil {
		return "", err
	}
	var out []string
	for _, b := range bundles {
		var files, values string
		for _, name := range sorted(b.Files) {
			files += fmt.Sprintf("\n  %s %d", name, len(b.Files[name]))
		}
		if h := b.Options.Helm; h != nil && h.Values != nil {
			values = text(h.Values.Data)
		}
		out = append(out, fmt.Sprintf("%s in %s\n values %s\n namespace %s %s depends %v%s", b.Name, b.Dir, values,
			b.Options.DefaultNamespace, b.Options.TargetNamespace, b.Options.DependsOn, files))
	}
	slices.Sort(out)
	return strings.Join(out, "\n"), nil
}

func ours(repo fs.FS, s fleetread.Source) (string, error) {
	scan := lint.BundleScan{GitRepo: s.Name, Paths: s.Paths}
	for _, b := range s.Bundles {
		scan.Bundles = append(scan.Bundles, lint.BundlePath{Base: b.Base, Options: b.Options})
	}
	bundles, err := lint.ReadBundles(repo, scan)
	if err != nil {
		return "", err
	}
	var out []string
	for _, b := range bundles {
		if b.Err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", b.Dir, b.Err))
			continue
		}
		var files string
		slices.SortFunc(b.Resources, func(a, b lint.BundleFile) int { return strings.Compare(a.Name, b.Name) })
		for _, f := range b.Resources {
			files += fmt.Sprintf("\n  %s %d", f.Name, len(f.Data))
		}
		values, of := "", b.YAML.Helm
		data, wrong := b.Values(repo)
		if err = errors.Join(err, wrong); of != nil && (of.Values != nil || len(data) > 0) {
			values = text(data)
		}
		out = append(out, fmt.Sprintf("%s in %s\n values %s\n namespace %s %s depends %v%s", b.Name, b.Dir, values,
			b.YAML.DefaultNamespace, b.YAML.TargetNamespace, b.YAML.DependsOn, files))
	}
	slices.Sort(out)
	return strings.Join(out, "\n"), err
}

func text(v any) string { data, _ := yaml.Marshal(v); return string(data) }

func sorted[V any](m map[string]V) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// How two readings went.
const (
	refused  = iota // the lab does not play it: nothing is compared
	differed        // which the test has been told
	failed          // both say that Fleet makes no bundles of it
	alike
)

// agree compares.
func agree(t *testing.T, repo fs.FS, s fleetread.Source, what string) int {
	t.Helper()
	lab, labErr := theirs(repo, s)
	var unknown *fleetread.Unknown
	if errors.As(labErr, &unknown) {
		return refused
	}
	own, ownErr := ours(repo, s)
	switch {
	case !assert.Equal(t, labErr == nil, ownErr == nil, "%s\nthe lab: %v\nfleet: %v", what, labErr, ownErr):
		return differed
	case labErr != nil:
		return failed
	case !assert.Equal(t, lab, own, what):
		return differed
	}
	return alike
}

// TestBothReadTheRepositoriesOfTheLinter: two for each of its rules, whose oddities are
// the point.
func TestBothReadTheRepositoriesOfTheLinter(t *testing.T) {
	cases, err := filepath.Glob("../../../fleet/lint/testdata/rules/*/*")
	require.NoError(t, err)
	cases = slices.DeleteFunc(cases, func(name string) bool { // what the linter says of them is kept beside them
		info, err := os.Stat(name)
		return err == nil && !info.IsDir()
	})
	require.Greater(t, len(cases), 100)
	count := map[int]int{}
	for _, dir := range cases {
		count[agree(t, os.DirFS(dir), fleetread.Source{Name: "lab"}, dir)]++
	}
	t.Logf("%d repositories: alike %d, refused by both %d, not played %d", len(cases), count[alike], count[failed], count[refused])
	require.Greater(t, count[alike], len(cases)/2)
}

// TestBothReadWhatTheExamplesRender: the folder in Git of our own cluster files, and
// nothing in it is foreign to the lab.
func TestBothReadWhatTheExamplesRender(t *testing.T) {
	rendered := 0
	for _, file := range []string{"../../../examples/eight-a100/cluster.yaml", "../../../examples/one-gpu/cluster.yaml"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		gitops := filepath.Join(t.TempDir(), "cluster.yaml")
		data = append(data, "\nfleet:\n  repo: https://git.example.com/infra.git\n  username: robot\n  password: env:GIT_TOKEN\n  default: fleet\n"...)
		require.NoError(t, os.WriteFile(gitops, data, 0o600))
		spec, err := cluster.Load(gitops)
		require.NoError(t, err, file)
		tree, _, err := platform.FleetTree(spec)
		require.NoError(t, err, file)
		s := fleetread.Source{Name: "homelab"}
		require.Equal(t, alike, agree(t, tree.FS(), s, file), file)
		bundles, err := fleetread.Read(tree.FS(), s)
		require.NoError(t, err)
		for _, b := range bundles {
			_, err := b.Release()
			require.NoError(t, err, "%s: %s", file, b.Name)
			rendered++
		}
	}
	require.Greater(t, rendered, 5)
}

// TestBothReadRandomRepositories makes small ones of what the rules are about.
func TestBothReadRandomRepositories(t *testing.T) {
	count := map[int]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 20))
		repo, s := random(r)
		var names []string
		for _, name := range sorted(repo) {
			names = append(names, name+" = "+string(repo[name].Data))
		}
		count[agree(t, repo, s, fmt.Sprintf("seed %d: %+v\n%s", seed, s, strings.Join(names, "\n")))]++
		if t.Failed() {
			return
		}
	}
	t.Logf("alike %d, refused by both %d, not played %d", count[alike], count[failed], count[refused])
	require.Greater(t, count[alike], 1000)
}

func random(r *rand.Rand) (fstest.MapFS, fleetread.Source) {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	dirs := []string{"", "a/", "a/b/", "a/b/c/", "a-two/", "A_x/", ".h/", "a/.h/", "b/apps/x/", "b/", "a/templates/", "very-long-name-of-a-folder-that-goes-on/and-on-and-on/"}
	repo := fstest.MapFS{}
	add := func(name, content string) { repo[name] = &fstest.MapFile{Data: []byte(content)} }
	for range 2 + r.IntN(9) {
		name := pick("fleet.yaml", "fleet.yaml", "fleet.yml", "x.yaml", "y.yml", "z.json", "README.md", ".hidden.yaml", ".fleetignore", "values.yaml", "dev.yaml", "Chart.yaml", "x.yaml")
		content := object
		switch name {
		case "fleet.yaml", "fleet.yml", "dev.yaml":
			content = options(r, pick)
		case ".fleetignore":
			content = pick("*.md", "x.yaml", "b/*", "apps/*\n", "# x.yaml", "*.y?ml  \n", "b", "*/x.yaml", "", "?.json\r\n")
		case "values.yaml":
			content = pick("a: 2", "{a: {b: 3}}", "a: null", "", "[1]", "b: {c: 1}")
		case "Chart.yaml":
			content = "{apiVersion: v2, name: x, version: 1.0.0}"
		}
		add(pick(dirs...)+name, content)
	}
	s := fleetread.Source{Name: pick("lab", "Lab", "lab.x", "a-name-that-is-already-quite-long-for-a-gitrepo")}
	switch r.IntN(4) {
	case 0:
	case 1, 2:
		s.Paths = append(s.Paths, pick("a", "b", "*", "."))
		for range r.IntN(2) {
			s.Paths = append(s.Paths, pick("a", "/a", "a/", "*", "*/", "a/*", "**", ".", "", "/", "b/apps", "nowhere", "a/b/c", "[ab]", "a[", "./a*", "?", ".h", "a/x.yaml", "/a/*/", `\a`))
		}
	case 3:
		for range 1 + r.IntN(2) {
			s.Bundles = append(s.Bundles, fleetread.Driven{Base: pick("a", "a/", "./a/b", "/a", "b", ".", "", "nowhere", ".h", "*"),
				Options: pick("", "", "fleet.yaml", "fleet.yml", "dev.yaml", "b/dev.yaml")})
		}
	}
	return repo, s
}

func options(r *rand.Rand, pick func(...string) string) string {
	var out []string
	for range r.IntN(4) {
		out = append(out, pick("name: one", "name: two", "defaultNamespace: n", "namespace: m", "labels: {a: b}", "annotations: {a: b}",
			"dependsOn: [{name: a}]", "dependsOn: [{name: a, acceptedStates: [Ready]}]", "keepResources: true", "imageScans: []", "paused: yes", "unknown: 1",
			"helm: {values: {a: 1, c: {d: 1}}}", "helm: {chart: .}", "helm: {valuesFiles: [values.yaml]}", "helm: {repo: 'oci://example.com/x', version: 1.0.0}",
			"helm: {repo: 'https://example.com', chart: x, values: {a: {b: 1}}}", "helm: {chart: 'oci://example.com/x'}", "targets: [{helm: {values: {a: 1}}}]"))
	}
	if r.IntN(6) == 0 { // what may be refused
		out = append(out, pick("labels: {a: 1}", "annotations: x", "dependsOn: [{}]", "dependsOn: [{name: a, acceptedStates: [Up]}]", "imageScans: [{image: a, tagName: b}]",
			"helm: {chart: apps/x}", "helm: {chart: x}", "helm: {chart: ., valuesFiles: [values.yaml]}", "helm: {repo: 'https://example.com'}", "helm: {timeoutSeconds: ten}",
			"helm: {repo: 'https://example.com', chart: x, version: 1.0.0, valuesFiles: [values.yaml], values: {a: {b: 1}}}",
			"helm: {repo: 'https://example.com', chart: x, valuesFiles: [b/values.yaml, ../values.yaml]}", "targetCustomizations: [{name: t, helm: {valuesFiles: [dev.yaml]}}]"))
	}
	slices.Sort(out)
	out = slices.CompactFunc(out, func(a, b string) bool { return strings.SplitN(a, ":", 2)[0] == strings.SplitN(b, ":", 2)[0] })
	return strings.Join(out, "\n") + "\n"
}
