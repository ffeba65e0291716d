package charts_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/lab/charts"
)

// metadata reads Chart.yaml of all charts, by name.
func metadata(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	list, err := fs.Glob(charts.Files(), "*/Chart.yaml")
	require.NoError(t, err)
	for _, file := range list {
		text, err := fs.ReadFile(charts.Files(), file)
		require.NoError(t, err)
		var c struct{ Name, Version string }
		require.NoError(t, yaml.Unmarshal(text, &c), file)
		assert.Equal(t, strings.TrimSuffix(file, "/Chart.yaml"), c.Name)
		versions[c.Name] = c.Version
	}
	return versions
}

var update = flag.Bool("update", false, "rewrite pins.json")

func TestVersionsAreThosePinned(t *testing.T) {
	have, want := metadata(t), map[string]charts.Pin{}
	for part, pin := range platform.Pins() {
		want[part] = charts.Pin{Chart: pin.Chart, Version: pin.Version}
		if version, ok := have[pin.Chart]; ok {
			assert.Equal(t, pin.Version, version, "%s: change the version in sim/lab/charts/%s/Chart.yaml", pin.Chart, pin.Chart)
			delete(have, pin.Chart)
		}
	}
	assert.Empty(t, have, "stand-ins for charts that nobody pins")
	if *update {
		text, err := json.MarshalIndent(want, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile("pins.json", append(text, '\n'), 0o644))
		return
	}
	assert.Equal(t, want, charts.Pins(), "run go test ./sim/lab/charts -update")
}

func TestEachRendersFromTheFolderThatIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "charts")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "left-over"), 0o700))
	require.NoError(t, charts.Write(dir))
	assert.NoDirExists(t, filepath.Join(dir, "left-over"))
	values := map[string]map[string]any{
		"rancher":      {"hostname": "rancher.example.org"},
		"cert-manager": {"crds": map[string]any{"enabled": true}},
	}
	for name, version := range metadata(t) {
		t.Run(name, func(t *testing.T) {
			out, err := helm.Source{Folder: dir, Offline: true}.Render(t.Context(),
				chart.Release{Name: name, Namespace: "there", Chart: name, Version: version, Values: values[name]},
				helm.Capabilities{Kubernetes: "v1.36.5+k3s1"})
			require.NoError(t, err)
			assert.Contains(t, string(out), "kind: ")
		})
	}
}
