package gitops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/fleet/lint"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// A repository with an error in it ends with exit code 1, a wrong flag with 3.
func TestLintExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("apps/web/fleet.yaml", "defaultNamespace: web\n")
	write("apps/web/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n")
	write("clusters.yaml", "- name: local\n  labels: {env: lab}\n")
	code := func(f LintFlags) int {
		err := Lint(t.Context(), f)
		var e *session.Error
		if errors.As(err, &e) {
			return e.Code
		}
		require.NoError(t, err)
		return 0
	}
	sarif := filepath.Join(t.TempDir(), "out.sarif")
	require.Equal(t, 0, code(LintFlags{Dir: dir, SARIF: sarif, Clusters: filepath.Join(dir, "clusters.yaml"), Paths: "apps/*", Repo: "lab"}))
	require.FileExists(t, sarif)
	require.Equal(t, 0, code(LintFlags{Dir: dir, Clusters: "local,other"}))
	for _, wrong := range []LintFlags{{Dir: dir + "/none"}, {Dir: dir, Paths: "none"}, {Dir: dir, Level: "loud"}, {Dir: dir, Clusters: "none.yaml"}, {Dir: dir, Spec: "none.yaml"}, {Dir: dir, Charts: dir + "/none"}, {Dir: dir, Clusters: filepath.Join(dir, "apps/web/fleet.yaml")}} {
		require.Equal(t, 3, code(wrong), "%+v", wrong)
	}
	require.Error(t, Lint(t.Context(), LintFlags{Dir: dir, SARIF: filepath.Join(dir, "clusters.yaml", "out.sarif")}))
	t.Chdir(dir)
	require.Equal(t, 0, code(LintFlags{Paths: "apps/*"}), "the folder that one is in")
	write("apps/web/fleet.yaml", "defaultNamespace: web\nowner: lab\n")
	require.Equal(t, 1, code(LintFlags{Dir: dir, JSON: true, Level: "error"}))
}

// The file of a cluster says which namespaces it has, and what keeps pods from its GPUs.
func TestLintForACluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	site := func(more string) *lint.Site {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(`name: x
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 2, addresses: [10.0.0.21-10.0.0.22], memory: 64GiB, gpus: 1}
storage: {nfs: {server: 10.0.0.5, export: /k3s, shares: {films: {export: "10.0.0.5:/films", namespaces: [research]}}}}
monitoring: {}
`+more), 0o600))
		out, err := siteOf(file, console.New(false))
		require.NoError(t, err)
		return out
	}
	its := site("")
	require.Subset(t, its.Namespaces, []string{"kube-system", "monitoring", "research"})
	gpu := []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}}
	require.Equal(t, [][]corev1.Taint{gpu, gpu}, its.GPUTaints)
	require.Empty(t, site("k3s: {server: {kube-apiserver-arg: [enable-admission-plugins=ExtendedResourceToleration]}}\n").GPUTaints)
	none, err := siteOf("", console.New(false))
	require.NoError(t, err)
	require.Nil(t, none)
}

// The findings go to standard output, as JSON if asked, and the exit code is about all of them, also those that are not shown.
func TestLintReport(t *testing.T) {
	r := &lint.Report{Bundles: 1, Files: 2, Findings: []lint.Finding{
		{Rule: "a-rule", Severity: lint.Failure, File: "a.yaml", Line: 1, Message: "is wrong"}, {Rule: "b-rule", Severity: lint.Info, File: "b.yaml", Line: 1, Message: "is odd"}}}
	for _, asJSON := range []bool{false, true} {
		var data, talk bytes.Buffer
		c := console.New(asJSON)
		c.Data, c.Talk = &data, &talk
		var e *session.Error
		require.ErrorAs(t, report(c, r, lint.Warning), &e)
		require.Equal(t, 1, e.Code)
		require.EqualError(t, e, "fleet:lint: 1 of these must be fixed")
		require.Equal(t, asJSON, json.Valid(data.Bytes()), data.String())
		require.Equal(t, !asJSON, strings.Contains(talk.String(), r.Summary()))
		require.Contains(t, data.String(), "a-rule")
		require.NotContains(t, data.String(), "b-rule")
		c.Data = broken{}
		require.ErrorIs(t, report(c, r, lint.Warning), io.ErrClosedPipe, "what could not be shown")
		c.Data = &data
		require.NoError(t, report(c, &lint.Report{Findings: r.Findings[1:]}, lint.Warning))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Lint(ended, LintFlags{Dir: t.TempDir()}), context.Canceled)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A code host gets paths from the repository's root, where one works; a folder elsewhere is a root of its own.
func TestPrefix(t *testing.T) {
	for dir, want := range map[string]string{".": "", "./": "", "apps": "apps/", "./apps/web/": "apps/web/", "apps/..": "", "..": "", "../other": "", "..apps": "..apps/", "/srv/apps": ""} {
		require.Equal(t, want, prefixFrom(dir), dir)
	}
}

func TestLintOptions(t *testing.T) {
	charts := t.TempDir()
	o, least, err := LintFlags{Charts: charts, Clusters: "local, other", Paths: "a,, b"}.options()
	require.NoError(t, err)
	require.Equal(t, lint.Warning, least)
	require.Equal(t, []lint.Cluster{{Name: "local"}, {Name: "other"}}, o.Clusters)
	require.Equal(t, []string{"a", "b"}, o.Paths)
	require.Equal(t, charts, o.Charts.Folder)
	require.True(t, o.Charts.Offline)
	o, _, err = LintFlags{Charts: charts, Online: true}.options()
	require.NoError(t, err)
	require.False(t, o.Charts.Offline)
	require.Empty(t, o.Clusters)
}

// What a link leads to outside the folder is not read, and the link is named.
func TestLintReadsNothingOutside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "o.yaml"), []byte("password: [\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "app"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "app/fleet.yaml"), []byte("defaultNamespace: web\n"), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(outside, "o.yaml"), filepath.Join(dir, "app/o.yaml")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "app/folder")))
	require.NoError(t, os.Symlink("fleet.yaml", filepath.Join(dir, "app/in.txt")))
	report := filepath.Join(t.TempDir(), "out.sarif")
	require.Error(t, Lint(t.Context(), LintFlags{Dir: dir, SARIF: report}))
	data, err := os.ReadFile(report)
	require.NoError(t, err)
	var sarif struct {
		Runs []struct {
			Results []struct {
				RuleID  string
				Message struct{ Text string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &sarif))
	var rules []string
	for _, r := range sarif.Runs[0].Results {
		rules = append(rules, r.RuleID)
	}
	require.Equal(t, []string{"symlink-outside", "symlink-outside"}, rules, "and not yaml-syntax: what is there is not checked")
}
