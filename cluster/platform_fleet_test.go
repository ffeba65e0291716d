package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // a server in memory, for a moment
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// gitHost is Git's own server for HTTP, on connections in memory.
type gitHost struct {
	repo  string
	conns chan net.Conn
}

// git runs Git in the repository.
func (g gitHost) git(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", g.repo}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func newGitHost(t testing.TB) gitHost {
	t.Helper()
	root := t.TempDir()
	g := gitHost{repo: filepath.Join(root, "gpu.git"), conns: make(chan net.Conn)}
	out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", g.repo).CombinedOutput()
	require.NoError(t, err, "%s", out)
	g.git(t, "config", "http.receivepack", "true")
	bin, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(bin)), "git-http-backend"), Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = srv.Serve(memory{ctx, g.conns}) }()
	t.Cleanup(func() { cancel(); _ = srv.Close() })
	return g
}

// Dial is the way there.
func (g gitHost) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case g.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memory is a listener of connections that are handed over.
type memory struct {
	ctx   context.Context
	conns chan net.Conn
}

func (m memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.ctx.Done():
		return nil, net.ErrClosed
	}
}
func (m memory) Close() error   { return nil }
func (m memory) Addr() net.Addr { return &net.UnixAddr{Name: "git"} }

// playFleet says what Fleet's controllers would: that it is there, and that what lies
// in Git is deployed. It deploys nothing.
func (w *world) playFleet(t testing.TB, ctx context.Context, g gitHost, folder string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
		all := w.kube.Clusters()
		if len(all) == 0 || len(all[0].Names("deployments.apps")) == 0 {
			continue
		}
		c := all[0]
		put(c, `{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}`)
		put(c, `{apiVersion: fleet.cattle.io/v1alpha1, kind: Cluster, metadata: {name: local, namespace: fleet-local}, status: {agent: {lastSeen: "2026-11-22T00:00:00Z"}}}`)
		if len(c.Names("gitrepos.fleet.cattle.io")) == 0 {
			continue
		}
		commit := g.git(t, "rev-parse", "main")
		put(c, fmt.Sprintf(`{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, status: {commit: %s, gitJobStatus: Current, observedGeneration: 100}}`, commit))
		for _, dir := range strings.Fields(g.git(t, "ls-tree", "-d", "--name-only", "main:"+folder)) {
			part := ""
			for line := range strings.Lines(g.git(t, "show", "main:"+folder+"/"+dir+"/fleet.yaml")) {
				if _, p, ok := strings.Cut(line, fleet.PartLabel+": "); ok {
					part = strings.TrimSpace(p)
				}
			}
			labels := fmt.Sprintf(`{fleet.cattle.io/repo-name: homelab, fleet.cattle.io/commit: %s, %s: %s, fleet.cattle.io/bundle-name: %s, fleet.cattle.io/bundle-namespace: fleet-local, fleet.cattle.io/cluster: local}`,
				commit, fleet.PartLabel, part, dir)
			put(c, fmt.Sprintf(`{apiVersion: fleet.cattle.io/v1alpha1, kind: Bundle, metadata: {name: %s, namespace: fleet-local, labels: %s}, spec: {}}`, dir, labels))
			put(c, fmt.Sprintf(`{apiVersion: fleet.cattle.io/v1alpha1, kind: BundleDeployment, metadata: {name: %s, namespace: fleet-local, labels: %s}, spec: {deploymentID: a, stagedDeploymentID: a}, status: {appliedDeploymentID: a, ready: true, nonModified: true}}`, dir, labels))
		}
	}
}

// playFlux says what Flux's controllers would: that what lies in Git is deployed. It deploys nothing.
func (w *world) playFlux(t testing.TB, ctx context.Context, g gitHost, folder string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
		all := w.kube.Clusters()
		if len(all) == 0 || len(all[0].Names("gitrepositories.source.toolkit.fluxcd.io")) == 0 {
			continue
		}
		c, revision := all[0], "main@sha1:"+g.git(t, "rev-parse", "main")
		ready := "{type: Ready, status: 'True', reason: Succeeded, message: done, observedGeneration: 100, lastTransitionTime: '2026-11-22T00:00:00Z'}"
		say := func(apiVersion, kind, name, labels, more string) {
			put(c, fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: homelab-flux, labels: {%s}}, status: {conditions: [%s], %s}}`, apiVersion, kind, name, labels, ready, more))
		}
		say("source.toolkit.fluxcd.io/v1", "GitRepository", "homelab", "", "artifact: {revision: '"+revision+"'}")
		for _, name := range c.Names("kustomizations.kustomize.toolkit.fluxcd.io") {
			if _, name, _ = strings.Cut(name, "/"); strings.HasPrefix(name, "homelab-") {
				say("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name, "", "lastAppliedRevision: '"+revision+"'")
			}
		}
		for _, dir := range strings.Fields(g.git(t, "ls-tree", "-d", "--name-only", "main:"+folder)) {
			for line := range strings.Lines(g.git(t, "show", "main:"+folder+"/"+dir+"/flux.yaml")) {
				if _, part, ok := strings.Cut(line, fleet.PartLabel+": "); ok {
					say("kustomize.toolkit.fluxcd.io/v1", "Kustomization", dir, fleet.PartLabel+": "+strings.TrimSpace(part), "lastAppliedRevision: '"+revision+"'")
				}
			}
		}
	}
}

// playArgo says what Argo CD would: that what lies in Git is deployed. It deploys nothing.
func (w *world) playArgo(t testing.TB, ctx context.Context, g gitHost, folder string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
		all := w.kube.Clusters()
		if len(all) == 0 || !slices.Contains(all[0].Names("applications.argoproj.io"), "argocd/homelab-git-"+strings.ReplaceAll(folder, "/", "-")) {
			continue
		}
		c, commit := all[0], g.git(t, "rev-parse", "main")
		say := func(name, labels string) {
			put(c, fmt.Sprintf(`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: %s, namespace: argocd, labels: {%s}}, status: {sync: {status: Synced, revision: %q}, health: {status: Healthy}}}`, name, labels, commit))
		}
		say("homelab-git-"+strings.ReplaceAll(folder, "/", "-"), "")
		for _, dir := range strings.Fields(g.git(t, "ls-tree", "-d", "--name-only", "main:"+folder)) {
			for line := range strings.Lines(g.git(t, "show", "main:"+folder+"/"+dir+"/argocd.yaml")) {
				if _, part, ok := strings.Cut(line, fleet.PartLabel+": "); ok {
					say("homelab-"+dir, fleet.PartLabel+": "+strings.TrimSpace(part))
				}
			}
		}
	}
}

func put(c *kubesim.Cluster, manifest string) { _ = c.Apply(context.Background(), []byte(manifest)) } // kinds come with the chart

// A part goes through Git: pushed once, waited for, and pushed again when it changes.
func TestPartThroughFleet(t *testing.T) {
	partThroughGit(t, fleet.ToolFleet, "jupyterhub", (*world).playFleet)
}

func TestPartThroughFlux(t *testing.T) {
	partThroughGit(t, fleet.ToolFlux, "jupyterhub", (*world).playFlux)
}

func TestPartThroughArgo(t *testing.T) {
	partThroughGit(t, fleet.ToolArgo, "monitoring", (*world).playArgo)
}

func partThroughGit(t *testing.T, tool fleet.Tool, part string, play func(*world, testing.TB, context.Context, gitHost, string)) {
	facts.Program(t, "git", "git")
	via := string(tool)
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("GIT_TOKEN", "correct horse battery")
		w := newWorld(t, pvesim.OneGPU())
		g := newGitHost(t)
		w.gitDial = g.Dial
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go play(w, t, ctx, g, via+"/one-gpu")

		text := replace(t, withPlatform(t, "one-gpu", smallPlatform+map[string]string{"monitoring": "monitoring: {size: 10GiB, gpus: false}\n"}[part]+
			via+": {repo: 'http://127.0.0.1/gpu.git', username: homelab, password: env:GIT_TOKEN}\n"),
			"offline: true}", "offline: true, via: {"+part+": "+via+"}}")
		spec := parse(t, text)
		report := w.up(t, spec)
		for _, step := range []string{"chart/" + via, "push/" + via, "objects/gitops", via + "/" + part} {
			_, ok := report.Step(step)
			assert.True(t, ok, step)
		}
		assert.Contains(t, g.git(t, "ls-tree", "-r", "--name-only", "main"), via+"/one-gpu/"+part+"/"+tool.BundleFile())
		assert.NotContains(t, g.git(t, "log", "-p"), "horse")
		commit, before := g.git(t, "rev-parse", "main"), w.now()
		assert.Empty(t, changedSteps(w.up(t, spec)))
		assert.Equal(t, commit, g.git(t, "rev-parse", "main"))
		assert.Empty(t, before.changes().Kubernetes)

		spec = parse(t, replace(t, text, "small: {cpu: 1, memory: 2GiB}", "small: {cpu: 1, memory: 3GiB}"))
		if part == "monitoring" {
			spec = parse(t, replace(t, text, "offline: true,", "offline: true, values: {monitoring: {grafana: {replicas: 2}}},"))
		}
		plan := w.plan(t, spec)
		require.Len(t, plan, 2, "the push, and waiting for it: %q", plan)
		assert.Equal(t, []string{"push/" + via, via + "/" + part}, changedSteps(w.up(t, spec)))
		assert.Equal(t, "2", g.git(t, "rev-list", "--count", "main"))
		w.lastPartLeavesGit(t, g, tool, strings.NewReplacer(", via: {"+part+": "+via+"}", "", smallPlatform[strings.Index(smallPlatform, "hub:"):], "",
			"monitoring: {size: 10GiB, gpus: false}\n", "").Replace(text))
		assert.NotContains(t, w.output.String(), "horse")
		stop()
		synctest.Wait()
	})
}

// lastPartLeavesGit: the folder becomes empty, once; when the tool has read that, it no longer reads the folder.
func (w *world) lastPartLeavesGit(t *testing.T, g gitHost, tool fleet.Tool, text string) {
	t.Helper()
	spec, via := parse(t, text), string(tool)
	first, want := map[fleet.Tool]string{fleet.ToolFleet: "README.md", fleet.ToolFlux: "README.md kustomization.yaml", fleet.ToolArgo: "README.md kustomization.yaml"}[tool],
		[]string{"push/" + via, "emptied/" + via, "leftovers"}
	if tool == fleet.ToolFleet {
		want = slices.Delete(want, 1, 2)
	}
	plan := w.plan(t, spec)
	require.Len(t, plan, len(want), "%q", plan)
	assert.Contains(t, plan[0], "/"+tool.BundleFile())
	assert.Equal(t, want, changedSteps(w.up(t, spec)))
	assert.Equal(t, fleet.ListFile+" "+first, strings.Join(strings.Fields(g.git(t, "ls-tree", "-r", "--name-only", "main:"+via+"/one-gpu")), " "))
	assert.Equal(t, "3", g.git(t, "rev-list", "--count", "main"))
	before := w.now()
	assert.Empty(t, changedSteps(w.up(t, spec)))
	assert.Equal(t, "3", g.git(t, "rev-list", "--count", "main"))
	assert.Empty(t, before.changes().Kubernetes)
}
