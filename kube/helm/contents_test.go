package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart"
)

// TestWhatAChartHolds: keys of its values, charts inside it, templates by their paths.
func TestWhatAChartHolds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, "top-1.0.0", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	meta := func(name, more string) string {
		return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" + more
	}
	write("Chart.yaml", meta("top", "dependencies: [{name: sub, version: 1.0.0, alias: second}, {name: flat, version: 1.0.0}]\n"))
	write("values.yaml", "b: 1\na: 2\n")
	write("templates/t.yaml", "# top")
	write("charts/sub/Chart.yaml", meta("sub", ""))
	write("charts/sub/templates/t.yaml", "# sub")
	write("charts/flat/Chart.yaml", meta("flat", ""))
	s, r := Source{Folder: dir}, chart.Release{Chart: "top", Version: "1.0.0"}
	got, err := s.Contents(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, Contents{Values: []string{"a", "b"}, Charts: []string{"sub", "second", "flat"},
		Templates: map[string][]byte{"top/templates/t.yaml": []byte("# top"), "top/charts/sub/templates/t.yaml": []byte("# sub")}}, got)
	got, err = s.Contents(t.Context(), chart.Release{Chart: "none", Version: "1"})
	var none *NotFoundError
	require.ErrorAs(t, err, &none)
	assert.Empty(t, got)

	for want, text := range map[string]string{
		"is a library: other charts use it, and it cannot be installed":       meta("top", "type: library\n"),
		"is called bottom in its Chart.yaml, not top":                         meta("bottom", ""),
		"lacks charts that it depends on: other 2.0.0: run helm dependency b": meta("top", "dependencies: [{name: sub, version: 1.0.0}, {name: other, version: 2.0.0}]\n"),
		"chart " + dir + "/top-1.0.0: ":                                       "apiVersion: v9\nname: top\nversion: x\n",
		"chart " + dir + "/top-1.0.0: ":                                       "{",
	} {
		write("Chart.yaml", text)
		require.ErrorContains(t, s.Check(t.Context(), r, Capabilities{}), want)
	}
}

// TestFolders: what is named by version wins, a folder counts as a chart where it is one, and any
// version is the last by name.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	put := func(names ...string) {
		for _, name := range names {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
	}
	s := Source{Folder: dir}
	find := func(version string) string {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer func() { _ = root.Close() }()
		name, err := s.inFolder(folder{root}, chart.Release{Chart: "web", Version: version})
		require.NoError(t, err)
		return name
	}
	assert.Empty(t, find("1.0.0"))
	s.AnyVersion = true
	assert.Empty(t, find("1.0.0"))
	put("web-1.0.0.tgz", "web-v2.0.0.tgz", "web-3.0.0/Chart.yaml", "web-4.0.0/values.yaml", "web-.tgz", "web-:.tgz", "web-proxy-9.0.0.tgz", "web-/.tgz")
	for version, want := range map[string]string{"1.0.0": "web-1.0.0.tgz", "v1.0.0": "web-1.0.0.tgz", "2.0.0": "web-v2.0.0.tgz", "v3.0.0": "web-3.0.0", "4.0.0": "web-v2.0.0.tgz"} {
		assert.Equal(t, want, find(version), version)
	}
	assert.Equal(t, "web-1.0.0.tgz, web-v2.0.0.tgz only", s.offer("web"))
	put("web-0.1.tgz", "web-9.tgz")
	assert.Equal(t, "web-0.1.tgz, web-1.0.0.tgz, web-9.tgz, web-v2.0.0.tgz only", s.offer("web"))
	assert.Equal(t, "no chart of this name", s.offer("wob"))
	s.AnyVersion = false
	assert.Empty(t, find("4.0.0"))
	put("web/Chart.yaml")
	assert.Equal(t, "web", find("4.0.0"))
	for v, want := range map[string]string{"1.0.0": "web-1.0.0.tgz", "3.0.0": "web-3.0.0"} {
		assert.Equal(t, want, find(v))
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ values, over, want string }{
		{"{a: {b: 1, c: 2}}", "{a: {b: 3, d: 4}}", "{a: {b: 3, c: 2, d: 4}}"}, {"{a: {b: 1}}", "{a: [1]}", "{a: [1]}"}, {"{a: 1}", "{a: {b: 1}}", "{a: {b: 1}}"}, {"{}", "{a: null}", "{a: null}"},
	} {
		b, err := json.Marshal(chart.Merge(value(t, c.values).(map[string]any), value(t, c.over).(map[string]any)))
		require.NoError(t, err)
		assert.Equal(t, value(t, c.want), value(t, string(b)))
	}
}
