package operators_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// repository is one on disk, with what is committed to it.
type repository struct {
	dir  string
	repo *git.Repository
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	dir := t.TempDir()
	repo, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName("main")}})
	require.NoError(t, err)
	return &repository{dir, repo}
}

// commit makes the folder fleet what a tree is, and commits that.
func (r *repository) commit(t *testing.T, tree fleet.Tree) string {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "fleet")))
	for name, data := range tree {
		path := filepath.Join(r.dir, "fleet", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	w, err := r.repo.Worktree()
	require.NoError(t, err)
	require.NoError(t, w.AddWithOptions(&git.AddOptions{All: true}))
	hash, err := w.Commit("a change", &git.CommitOptions{Author: &object.Signature{Name: "A test", Email: "test@example.org", When: time.Now()}})
	require.NoError(t, err)
	return hash.String()
}

// releases are those that Helm has records of, NAMESPACE/NAME.
func (s *site) releases(t *testing.T) []string {
	t.Helper()
	var out []string
	all, err := s.kube.List(t.Context(), "v1", "Secret", "", "owner=helm,status!=superseded")
	require.NoError(t, err)
	for _, r := range all {
		out = append(out, r.GetNamespace()+"/"+r.GetLabels()["name"])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestFleetDeploysWhatIsInGit(t *testing.T) {
	s := newSite(t)
	own := addon.Fleet{Fleet: &spec.Fleet{}}
	for _, p := range []addon.Part{addon.FleetCRD{Fleet: own}, own} {
		s.install(t, made(t, p), nil)
	}
	bundles, err := fleet.BundlesOfAll(made(t, certificates()), made(t, addon.Issuer{CertManager: certificates()}), made(t, metallb()))
	require.NoError(t, err)
	tree, err := fleet.Render(bundles, fleet.Options{})
	require.NoError(t, err)

	git := newRepository(t)
	commit := git.commit(t, tree)
	repo := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "GitRepo", "metadata": map[string]any{"name": "homelab", "namespace": "fleet-local"},
		"spec": map[string]any{"repo": "file://" + git.dir, "branch": "main", "paths": []any{"fleet"}, "pollingInterval": "1s"},
	}}
	eventually(t, 20*time.Second, "Fleet takes the GitRepo", func(ctx context.Context) error {
		_, err := s.kube.Apply(ctx, repo)
		return err
	})
	deployed := func(commit string) {
		t.Helper()
		eventually(t, 100*time.Second, "Fleet has deployed "+commit[:8], func(ctx context.Context) error {
			state, err := fleet.Observe(ctx, s.kube, fleet.StatusOptions{Commit: commit})
			if err != nil {
				return err
			}
			if d := state.Diff(); !d.Empty() {
				return errors.New(d.String())
			}
			return nil
		})
	}
	deployed(commit)
	ready, err := s.get(t.Context(), "cert-manager.io", "v1", "clusterissuers", "", "homelab")
	require.NoError(t, err)
	assert.NotNil(t, ready)
	assert.Subset(t, s.releases(t), []string{"cert-manager/cert-manager", "metallb-system/metallb", "metallb-system/metallb-after"},
		"objects without a chart are a release, too")

	s.storageByGit(t, fleet.ToolFleet, func(parts ...chart.Part) {
		bundles, err := fleet.BundlesOfAll(append(parts, made(t, certificates()), made(t, addon.Issuer{CertManager: certificates()}))...)
		require.NoError(t, err)
		tree, err := fleet.Render(bundles, fleet.Options{})
		require.NoError(t, err)
		deployed(git.commit(t, tree))
	})

	// Another commit; one that Fleet refuses; and what is taken out goes.
	one := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
	commit = git.commit(t, fleet.Tree{"one/fleet.yaml": []byte("defaultNamespace: one\nnamespaceLabels: {a: b}\n"), "one/config.yaml": one})
	deployed(commit)
	left := s.releases(t)
	assert.Contains(t, left, "one/homelab-fleet-one")
	assert.NotContains(t, strings.Join(left, " "), "metallb")
	assert.NotContains(t, left, "cert-manager/cert-manager", "its bundle said keepResources: Fleet forgets the release")
	_, err = s.core.AppsV1().Deployments("cert-manager").Get(t.Context(), "cert-manager", metav1.GetOptions{})
	require.NoError(t, err, "and leaves what it made")
	ns, err := s.core.CoreV1().Namespaces().Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b", "kubernetes.io/metadata.name": "one"}, ns.Labels, "Fleet removes all others")
	marked, err := s.core.CoreV1().ConfigMaps("one").Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "default-homelab-fleet-one", marked.Annotations["objectset.rio.cattle.io/id"])

	git.commit(t, fleet.Tree{"one/fleet.yaml": []byte("defaultNamespace: one\n"), "one/config.yaml": one, "one/kustomization.yaml": []byte("resources: [config.yaml]\n")})
	eventually(t, 20*time.Second, "what is not played is said", func(ctx context.Context) error {
		state, err := fleet.Observe(ctx, s.kube, fleet.StatusOptions{})
		if err != nil || strings.Contains(state.Diff().String(), "does not play this: kustomization.yaml") {
			return err
		}
		return errors.New(state.Diff().String())
	})
	assert.Contains(t, s.releases(t), "one/homelab-fleet-one", "what is deployed stays")

	commit = git.commit(t, fleet.Tree{"one/fleet.yaml": []byte("dependsOn: [{name: nowhere}]\n"), "one/config.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")})
	eventually(t, 20*time.Second, "a dependency that is nowhere is named", func(ctx context.Context) error {
		list, err := s.dynamic.Resource(schema.GroupVersionResource{Group: "fleet.cattle.io", Version: "v1alpha1", Resource: "bundledeployments"}).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if holds(&list.Items[i], "Deployed", "False") == nil {
				return nil
			}
		}
		return errors.New("no bundle waits")
	})
	state, err := fleet.Observe(t.Context(), s.kube, fleet.StatusOptions{Commit: commit})
	require.NoError(t, err)
	assert.Contains(t, state.Diff().String(), "nowhere")

	git.commit(t, fleet.Tree{"README.md": []byte("It is empty.\n")})
	eventually(t, 20*time.Second, "what was in a folder that is empty goes, and the job fails", func(ctx context.Context) error {
		state, err := fleet.Observe(ctx, s.kube, fleet.StatusOptions{})
		if err != nil || len(state.Bundles) == 0 && strings.Contains(state.Diff().String(), "no resource found") {
			return err
		}
		return errors.New(state.Diff().String())
	})
}
