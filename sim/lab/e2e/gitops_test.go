package e2e

import (
	"net/http"
	"net/http/cgi" //nolint:gosec // a server on loopback, for a moment
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/facts"
)

// gitHost is Git's own server for HTTP on loopback, with a login.
type gitHost struct{ url, bare string }

const gitToken = "correct horse battery staple"

func newGitHost(t *testing.T) gitHost {
	t.Helper()
	git := facts.Program(t, "git", "git")
	out, err := exec.CommandContext(t.Context(), git, "--exec-path").Output()
	require.NoError(t, err)
	bare := filepath.Join(t.TempDir(), "infra.git")
	require.NoError(t, exec.CommandContext(t.Context(), git, "init", "-q", "--bare", "-b", "main", bare).Run())
	require.NoError(t, exec.CommandContext(t.Context(), git, "-C", bare, "config", "http.receivepack", "true").Run())
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "robot" || password != gitToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return gitHost{srv.URL + "/infra.git", bare}
}

// section is that of a tool which deploys what it can from here.
func (g gitHost) section(tool string) string {
	return tool + ": {repo: '" + g.url + "', username: robot, password: file:git-token, default: " + tool + ", polling: 5s}\n"
}

// files are those of the branch.
func (g gitHost) files(t *testing.T) string { return g.git(t, "ls-tree", "-r", "--name-only", "main") }

// git runs Git in the repository.
func (g gitHost) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", g.bare}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// gitOpsFile is a small platform, of which parts come through Git.
const gitOpsFile = `name: short
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  cp1: {role: server, address: 10.0.0.11, memory: 8GiB}
storage: {nfs: 10.0.0.30:/export/k3s}
loadBalancer: {addresses: [10.0.0.200-219]}
tls: self-signed
hub: {hostname: hub.lab.example, auth: dummy, cull: 30m}
`

// TestGitOps: parts come through Git, change, go, and change over to the direct way and back.
func TestGitOps(t *testing.T) {
	t.Parallel()
	tools := []string{"argocd", "flux", "fleet"}
	mine := share.OneOf(t, len(tools), "tools")
	for _, tool := range tools {
		if !mine.Next() {
			continue
		}
		t.Run(tool, func(t *testing.T) {
			t.Parallel() // each mostly waits
			u, g := newUserOf(t, labctl.Guests{}), newGitHost(t)
			u.gitOps(t, g, tool)
			assert.NotContains(t, u.said.String(), "horse")
			assert.NotContains(t, g.git(t, "log", "-p"), "horse")
		})
	}
}

func (u *user) gitOps(t *testing.T, g gitHost, tool string) {
	u.write(t, "git-token", gitToken)
	text := gitOpsFile + g.section(tool)
	u.write(t, "cluster.yaml", text)
	u.must(t, "cluster:up")
	assert.Contains(t, g.files(t), tool+"/short/metallb/"+tool+".yaml")
	status, _ := u.must(t, "fleet:status")
	if tool == "flux" {
		pages.Compare(t, "docs/gitops.md", "status", status, *update)
	}
	u.againNothing(t)

	u.write(t, "cluster.yaml", strings.NewReplacer("cull: 30m", "cull: 40m", "10.0.0.200-219", "10.0.0.200-229").Replace(text))
	plan, _, code := u.run(t, "cluster:plan")
	assert.Equal(t, 2, code, plan)
	u.must(t, "cluster:up")
	assert.Equal(t, "2", g.git(t, "rev-list", "--count", "main"))
	u.againNothing(t)

	// A part without data and one with data are applied directly, and come from Git again.
	direct := text + "charts: {via: {metallb: direct, nfs: direct}}\n"
	u.write(t, "cluster.yaml", direct)
	_, talk, code := u.run(t, "cluster:up", "-yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, talk, "first remove it from Git with homelab fleet:push")
	u.must(t, "fleet:push", "-yes")
	u.must(t, "fleet:status", "-timeout=2m")
	switch tool {
	case "argocd":
		_, talk, code = u.run(t, "cluster:up", "-yes")
		assert.Equal(t, 1, code)
		assert.Contains(t, talk, "kubectl -n argocd delete applications.argoproj.io homelab-")
		u.applicationsKept(t, "metallb", "nfs")
	case "flux":
		_, talk, code = u.run(t, "cluster:up", "-yes")
		assert.Equal(t, 1, code)
		assert.Contains(t, talk, "kubectl -n homelab-flux patch helmrelease nfs --type merge -p '{\"spec\":{\"suspend\":true}}' && kubectl -n homelab-flux delete helmrelease,helmrepository nfs")
		u.releaseKept(t, "nfs")
	}
	u.must(t, "cluster:up", "-yes")
	u.againNothing(t)
	u.write(t, "cluster.yaml", text)
	u.must(t, "cluster:up", "-yes")
	u.againNothing(t)

	// A part that leaves the file leaves Git, and the cluster.
	u.write(t, "cluster.yaml", strings.Replace(text, "loadBalancer: {addresses: [10.0.0.200-219]}\n", "", 1))
	u.must(t, "cluster:up", "-yes")
	assert.NotContains(t, g.files(t), "metallb")
	u.againNothing(t)
	other := map[string]string{"flux": "fleet", "fleet": "flux", "argocd": "flux"}[tool]
	u.write(t, "cluster.yaml", strings.NewReplacer(tool+": {repo", other+": {repo", "default: "+tool, "default: "+other).Replace(text))
	_, talk, code = u.run(t, "cluster:up", "-yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, talk, "the two would undo each other's work")

	// Neither the tool nor what points it at Git leaves while it deploys parts.
	u.write(t, "cluster.yaml", gitOpsFile)
	_, talk, code = u.run(t, "cluster:up", "-yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, talk, "part gitops is no longer in the file but stays: ")
	assert.Contains(t, talk, "part "+tool+" is no longer in the file but stays: ")
	u.must(t, "cluster:down", "-yes")
}

// applicationsKept does what the message says: Argo CD forgets the bundles of parts.
func (u *user) applicationsKept(t *testing.T, parts ...string) {
	t.Helper()
	of := u.applications(t)
	for _, part := range parts {
		err := of.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: fleet.PartLabel + "=" + part})
		require.NoError(t, err)
	}
}

func (u *user) applications(t *testing.T) dynamic.ResourceInterface {
	return u.objects(t, schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}, "argocd")
}

func (u *user) helmReleases(t *testing.T) dynamic.ResourceInterface {
	return u.objects(t, schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}, "homelab-flux")
}

// objects reaches objects of the cluster.
func (u *user) objects(t *testing.T, of schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	t.Helper()
	return u.client(t).Resource(of).Namespace(namespace)
}

// server is the API server of the user's cluster, the only one.
func (u *user) server(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfigs, err := filepath.Glob(filepath.Join(u.dir, ".homelab", "*", "kubeconfig"))
	require.NoError(t, err)
	require.Len(t, kubeconfigs, 1)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfigs[0])
	require.NoError(t, err)
	return config
}

// client reaches all objects of the user's cluster.
func (u *user) client(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(u.server(t))
	require.NoError(t, err)
	return client
}

// releaseKept does what the message says: Flux forgets a release.
func (u *user) releaseKept(t *testing.T, name string) {
	t.Helper()
	of := u.helmReleases(t)
	_, err := of.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, of.Delete(t.Context(), name, metav1.DeleteOptions{}))
	repositories := u.objects(t, schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "helmrepositories"}, "homelab-flux")
	require.NoError(t, repositories.Delete(t.Context(), name, metav1.DeleteOptions{}))
}
