package session

import (
	"bytes"
	"net/http/cgi" //nolint:gosec // a server on loopback, for a moment
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/facts"
)

const gitopsSpec = `
name: lab1
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  server1: {role: server, address: 10.0.0.11}
storage:
  nfs: {server: 10.0.0.30, export: /export/k3s}
fleet: {repo: REPO, path: fleet/lab1, default: fleet, username: robot, password: env:SESSION_TEST_TOKEN}
`

// gitRepository serves an empty repository on loopback.
func gitRepository(t *testing.T) (url, bare string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), facts.Program(t, "git", "git"), "--exec-path").Output()
	require.NoError(t, err)
	bare = filepath.Join(t.TempDir(), "infra.git")
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "-q", "--bare", "-b", "main", bare).Run())
	require.NoError(t, exec.CommandContext(t.Context(), "git", "-C", bare, "config", "http.receivepack", "true").Run())
	srv := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	})
	t.Cleanup(srv.Close)
	return srv.URL + "/infra.git", bare
}

// TestFleetRenderAndPush: from a cluster file to a folder here, and to the repository.
func TestFleetRenderAndPush(t *testing.T) {
	t.Setenv("SESSION_TEST_TOKEN", "not-checked-here")
	url, bare := gitRepository(t)
	spec, err := cluster.Parse("cluster.yaml", []byte(strings.ReplaceAll(gitopsSpec, "REPO", url)))
	require.NoError(t, err)
	c, err := cluster.New(spec, cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	var talk bytes.Buffer
	s := &Session{Console: console.New(false), Spec: spec, Cluster: c}
	s.Talk = &talk
	dir := filepath.Join(t.TempDir(), "fleet")
	s.opt.Out = dir

	require.NoError(t, s.FleetRender(t.Context()))
	assert.FileExists(t, filepath.Join(dir, "nfs", "fleet.yaml"))
	assert.NotContains(t, talk.String(), "warning", "our own linter has nothing to say")
	require.NoError(t, s.FleetRender(t.Context()))
	assert.Contains(t, talk.String(), "Nothing to change")

	require.NoError(t, s.FleetPush(t.Context()))
	pushed, err := exec.CommandContext(t.Context(), "git", "-C", bare, "show", "main:fleet/lab1/nfs/fleet.yaml").Output()
	require.NoError(t, err)
	rendered, err := os.ReadFile(filepath.Join(dir, "nfs", "fleet.yaml"))
	require.NoError(t, err)
	assert.Equal(t, string(rendered), string(pushed))
	require.NoError(t, s.FleetPush(t.Context()))
	assert.Contains(t, talk.String(), "Nothing to push")

	// A file of ours that somebody changed stays, and is named.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nfs", "fleet.yaml"), []byte("theirs\n"), 0o644))
	require.ErrorContains(t, s.FleetRender(t.Context()), "nfs/fleet.yaml: changed by hand")
	s.opt.Force = true
	require.NoError(t, s.FleetRender(t.Context()))
}

// TestFleetRenderNeedsTheFileAlone: no Proxmox answers, no secret is set, no folder of
// ours is there, and what is rendered is what the cluster would be asked for.
func TestFleetRenderNeedsTheFileAlone(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	text := strings.Replace(strings.ReplaceAll(gitopsSpec, "REPO", "https://git.lab.example/infra.git"),
		"proxmox: {endpoint: lab, host: pve1}", "proxmox: {endpoint: \"https://192.0.2.1:8006\", token: a@pve!b, secret: env:SESSION_TEST_UNSET, host: pve1}", 1) + `
tls: self-signed
hub: {hostname: hub.lab.example, auth: {allowAll: true, oidc: {issuer: "https://id.lab.example", clientID: hub, clientSecret: env:SESSION_TEST_UNSET}}}
`
	require.NoError(t, os.WriteFile("cluster.yaml", []byte(text), 0o600))
	require.NoError(t, FleetRender(t.Context(), Options{Out: "out"}, false))
	values, err := os.ReadFile("out/jupyterhub/values.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(values), "https://id.lab.example/authorize")
	assert.NoDirExists(t, ".homelab")
	spec, err := cluster.Load("cluster.yaml")
	require.NoError(t, err)
	_, assumed, err := spec.FleetTree()
	require.NoError(t, err)
	assert.Len(t, assumed, 2)
}
