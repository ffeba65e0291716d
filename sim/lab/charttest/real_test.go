package charttest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/guest"
)

// TestRealCharts installs the charts of a folder, as people use them, beside each
// other, looks whether they are done then, and how long that takes. The folder has
// unpacked charts, as `helm pull --untar` leaves them, such as those that
// internal/platform lists.
func TestRealCharts(t *testing.T) {
	folder := facts.Charts(t, "")
	// Of the commands of these charts we know nothing: they end well.
	u := newUser(t, formWith(t, 3, func(context.Context, guest.Container) (int, string, string) { return 0, "", "" }))
	u.Client = helm.NewClient(u.kube, helm.Source{Folder: folder, AnyVersion: true, Offline: true, Cache: t.TempDir()})
	values := map[string]map[string]any{
		"cert-manager": {"crds": map[string]any{"enabled": true}},
		"rancher":      {"hostname": "rancher.example.com", "replicas": 1, "ingress": map[string]any{"tls": map[string]any{"source": "secret"}}},
		"longhorn":     {"defaultSettings": map[string]any{"deletingConfirmationFlag": true}},
		"jupyterhub":   {"hub": map[string]any{"db": map[string]any{"type": "sqlite-memory"}}},
		"velero":       {"configuration": map[string]any{"backupStorageLocation": []any{map[string]any{"provider": "aws", "bucket": "b"}}}, "snapshotsEnabled": false},
	}
	var releases []chart.Release
	first := []string{"cert-manager", "fleet-crd", "kube-prometheus-stack"} // what others need
	for _, name := range first {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			continue
		}
		releases = append(releases, named(t, folder, name, values[name]))
	}
	all, err := filepath.Glob(filepath.Join(folder, "*", "Chart.yaml"))
	require.NoError(t, err)
	for _, path := range all {
		name := filepath.Base(filepath.Dir(path))
		if !slices.Contains(first, name) {
			releases = append(releases, named(t, folder, name, values[name]))
		}
	}
	var good []chart.Release
	for _, r := range releases {
		t.Run(r.Name, func(t *testing.T) {
			u.reset()
			began := time.Now()
			ctx := converge.WithProgress(t.Context(), func(p converge.ProgressUpdate) { t.Log(p.String()) })
			require.NoError(t, u.Apply(ctx, r))
			reads, writes := u.reset()
			t.Logf("%s installed after %s, %d reads, %d writes", r.Chart+"-"+r.Version, time.Since(began).Round(time.Millisecond), reads, len(writes))
			u.done(t, r, 1)
			good = append(good, r)
		})
	}
	for range 2 {
		u.reset()
		began := time.Now()
		var g sync.WaitGroup
		for _, r := range good {
			g.Go(func() {
				s, err := u.Observe(t.Context(), r)
				assert.NoError(t, err)
				assert.Empty(t, s.Diff().String(), r.Name)
			})
		}
		g.Wait()
		reads, _ := u.reset()
		t.Logf("%d releases looked at in %s, %d requests", len(good), time.Since(began).Round(time.Millisecond), reads)
	}
	for _, r := range good {
		if slices.Contains(first, r.Name) {
			continue
		}
		t.Run("remove "+r.Name, func(t *testing.T) {
			require.NoError(t, u.Uninstall(t.Context(), r.Namespace, r.Name))
		})
	}
}

func named(t *testing.T, folder, name string, values map[string]any) chart.Release {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name, "Chart.yaml"))
	require.NoError(t, err)
	var meta struct{ Name, Version string }
	require.NoError(t, yaml.Unmarshal(data, &meta))
	return chart.Release{Name: name, Namespace: "real-" + name, Chart: meta.Name, Version: meta.Version, Values: values, Timeout: 40 * time.Second}
}
