package session

import (
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
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/sim/facts"
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
	w := newSite(t)
	defer w.close()
	text := strings.ReplaceAll(gitopsSpec, "REPO", url)
	dir := filepath.Join(t.TempDir(), "fleet")

	require.NoError(t, w.do(text, Options{}, with(FleetRenderFlags{Out: dir}, fleetRender)))
	assert.FileExists(t, filepath.Join(dir, "nfs", "fleet.yaml"))
	assert.NotContains(t, w.talk.String(), "warning", "our own linter has nothing to say")
	require.NoError(t, w.do(text, Options{}, with(FleetRenderFlags{Out: dir}, fleetRender)))
	assert.Contains(t, w.talk.String(), "Nothing to change")

	require.NoError(t, w.do(text, Options{}, with(FleetPushFlags{}, FleetPush)), "what comes needs no consent")
	assert.Contains(t, w.talk.String(), "pushed, commit ")
	pushed, err := exec.CommandContext(t.Context(), "git", "-C", bare, "show", "main:fleet/lab1/nfs/fleet.yaml").Output()
	require.NoError(t, err)
	rendered, err := os.ReadFile(filepath.Join(dir, "nfs", "fleet.yaml"))
	require.NoError(t, err)
	assert.Equal(t, string(rendered), string(pushed))
	require.NoError(t, w.do(text, Options{}, with(FleetPushFlags{}, FleetPush)))
	assert.Contains(t, w.talk.String(), "Nothing to push")

	// A file of ours that somebody changed stays, and is named.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nfs", "fleet.yaml"), []byte("theirs\n"), 0o644))
	require.ErrorContains(t, w.do(text, Options{}, with(FleetRenderFlags{Out: dir}, fleetRender)), "nfs/fleet.yaml: changed by hand")
	require.NoError(t, w.do(text, Options{}, with(FleetRenderFlags{Out: dir, Force: true}, fleetRender)))
}

// What a push takes out of Git Fleet takes off the cluster, with its volumes: fleet:push asks
// about it as cluster:up does, holds the right to change the cluster meanwhile, and with
// -force about what somebody else has changed as well.
func TestFleetPushAsks(t *testing.T) {
	t.Setenv("SESSION_TEST_TOKEN", "not-checked-here")
	url, bare := gitRepository(t)
	w := newSite(t)
	defer w.close()
	text := strings.ReplaceAll(gitopsSpec, "REPO", url)
	require.NoError(t, w.do(text+"monitoring: {size: 10GiB}\n", Options{}, with(FleetPushFlags{}, FleetPush)))
	tip := func() string {
		out, err := exec.CommandContext(t.Context(), "git", "-C", bare, "rev-parse", "main").Output()
		require.NoError(t, err)
		return string(out)
	}
	first := tip()
	const gone = "is destroyed: it is no longer in Git, so Fleet deletes it"
	for typed, says := range map[string]string{"": "there is no terminal to ask on: add -yes", "y\n": "nothing was changed"} {
		command := with(FleetPushFlags{}, FleetPush)
		if typed != "" {
			command = typing(typed, command)
		}
		err := w.do(text, Options{}, command)
		assert.Equal(t, refused, code(err))
		require.ErrorContains(t, err, says)
		assert.Contains(t, w.talk.String()+w.data.String(), gone)
		assert.Equal(t, first, tip())
	}
	other := w.theirs("lab1")
	err := w.do(text, Options{}, with(FleetPushFlags{ChangeFlags: ChangeFlags{Yes: true, NoWait: true}}, FleetPush))
	require.ErrorContains(t, err, "teacher@desk since ")
	assert.Equal(t, first, tip())
	require.NoError(t, other.Release(t.Context()))
	require.NoError(t, w.do(text, Options{}, with(FleetPushFlags{ChangeFlags: ChangeFlags{Yes: true}}, FleetPush)))
	assert.NotEqual(t, first, tip())

	// The last part goes as well, and what is left says that it is empty. A folder that is not ours stays as it is.
	none := strings.Replace(text, "storage:\n  nfs: {server: 10.0.0.30, export: /export/k3s}\n", "", 1)
	require.ErrorContains(t, w.do(none, Options{}, with(FleetPushFlags{}, FleetPush)), "there is no terminal to ask on: add -yes")
	require.NoError(t, w.do(none, Options{}, with(FleetPushFlags{ChangeFlags: ChangeFlags{Yes: true}}, FleetPush)))
	out, err := exec.CommandContext(t.Context(), "git", "-C", bare, "ls-tree", "-r", "--name-only", "main").Output()
	require.NoError(t, err)
	assert.Equal(t, "fleet/lab1/.homelab-files\nfleet/lab1/README.md\n", string(out))
	require.NoError(t, w.do(none, Options{}, with(FleetPushFlags{}, FleetPush)))
	assert.Contains(t, w.talk.String(), "Nothing to push")
	err = w.do(strings.Replace(none, "path: fleet/lab1", "path: fleet", 1), Options{}, with(FleetPushFlags{}, FleetPush))
	require.ErrorContains(t, err, "no part is deployed through Git")
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
	require.NoError(t, FleetRender(t.Context(), Options{}, FleetRenderFlags{Out: "out"}))
	values, err := os.ReadFile("out/jupyterhub/values.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(values), "https://id.lab.example/authorize")
	assert.NoDirExists(t, ".homelab")
	spec, err := cluster.Load("cluster.yaml")
	require.NoError(t, err)
	_, assumed, err := platform.FleetTree(spec)
	require.NoError(t, err)
	assert.Len(t, assumed, 2)
}
