package cluster_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/facts"
)

// A tree is pushed once.
func TestPushOfATree(t *testing.T) {
	facts.Program(t, "git", "git")
	g := newGitHost(t)
	c, err := cluster.New(parse(t, "name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}}\n"), cluster.Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	remote := fleet.Remote{URL: (&url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/" + filepath.Base(g.repo)}).String(), Username: "homelab", Password: secret.New("correct horse battery"), Dial: g.Dial}
	push := func(tree fleet.Tree, overwrite bool) (*fleet.PushResult, error) {
		graph, done := c.FleetPush(remote, tree, overwrite)
		_, err := graph.Run(t.Context(), nil)
		return done, err
	}
	tree := fleet.Tree{"a/x.yaml": []byte("a: 1\n"), "b/y.yaml": []byte("b: 1\n")}
	done, err := push(tree, false)
	require.NoError(t, err)
	assert.Equal(t, g.git(t, "rev-parse", "main"), done.Commit)
	assert.Equal(t, "a: 1", g.git(t, "show", "main:a/x.yaml"))
	done, err = push(tree, false)
	require.NoError(t, err)
	assert.Empty(t, done.Commit, "the second time there is nothing to push")
}

// What the file alone tells of the folder in Git: the parts that go through it, or nothing.
func TestTreeOfAFile(t *testing.T) {
	const file = "name: x\nnodes: {a: {role: server, external: ops@10.0.0.40}}\nhub: {hostname: hub.lab.example, auth: dummy, profiles: {small: {cpu: 1, memory: 2GiB}}}\n"
	tree, assumed, err := platform.FleetTree(parse(t, file))
	require.NoError(t, err)
	assert.Nil(t, tree)
	assert.Empty(t, assumed)
	tree, _, err = platform.FleetTree(parse(t, file+"fleet: {repo: 'https://git.lab.example/gpu.git', username: teacher, password: env:GIT_TOKEN}\ncharts: {folder: "+charts(t)+", offline: true, via: {jupyterhub: fleet}}\n"))
	require.NoError(t, err)
	require.NotEmpty(t, tree)
	for name := range tree {
		assert.NotContains(t, name, "cilium", "other parts are not in it")
	}
}
