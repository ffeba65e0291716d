package operators_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// argoSite is a cluster in which Argo CD deploys the folder fleet of a repository.
type argoSite struct {
	*site
	git *repository
}

func newArgoSite(t *testing.T) argoSite {
	t.Helper()
	s := argoSite{newSite(t), newRepository(t)}
	s.install(t, made(t, addon.ArgoCD{ArgoCD: &spec.ArgoCD{Fleet: spec.Fleet{Polling: time.Second}}}), nil)
	objects, credentials, err := fleet.GitRepo{Tool: fleet.ToolArgo, URL: "https://git.example/infra", Paths: []string{"fleet"}}.Objects()
	require.NoError(t, err)
	require.Nil(t, credentials)
	for _, o := range objects {
		if u := o.(*unstructured.Unstructured); u.GetKind() == "Application" {
			require.NoError(t, unstructured.SetNestedField(u.Object, "file://"+s.git.dir, "spec", "source", "repoURL"))
		}
		eventually(t, 20*time.Second, "Argo CD takes its objects", func(ctx context.Context) error {
			_, err := s.kube.Apply(ctx, o)
			return err
		})
	}
	return s
}

// render is what homelab writes for some parts.
func (s argoSite) render(t *testing.T, parts ...chart.Part) fleet.Tree {
	t.Helper()
	bundles, err := fleet.BundlesOfAll(parts...)
	require.NoError(t, err)
	tree, err := fleet.Render(bundles, fleet.Options{Tool: fleet.ToolArgo, Path: "fleet", Repo: "https://git.example/infra"})
	require.NoError(t, err)
	for name, text := range tree {
		tree[name] = []byte(strings.ReplaceAll(string(text), "https://git.example/infra", "file://"+s.git.dir))
	}
	return tree
}

func (s argoSite) deployed(t *testing.T, commit string) {
	t.Helper()
	eventually(t, 100*time.Second, "Argo CD has deployed "+commit[:8], func(ctx context.Context) error { return s.lacks(ctx, commit) })
}

// lacks says what is missing until a commit is deployed.
func (s argoSite) lacks(ctx context.Context, commit string) error {
	state, err := fleet.Observe(ctx, s.kube, fleet.StatusOptions{Tool: fleet.ToolArgo, Commit: commit})
	if err != nil {
		return err
	}
	if d := state.Diff(); !d.Empty() {
		return errors.New(d.String())
	}
	return nil
}

// says waits until the status has a text.
func (s argoSite) says(t *testing.T, commit, text string) {
	t.Helper()
	eventually(t, 60*time.Second, "it is said: "+text, func(ctx context.Context) error {
		err := s.lacks(ctx, commit)
		if err != nil && strings.Contains(err.Error(), text) {
			return nil
		}
		return errors.Join(errors.New("not yet"), err)
	})
}

func TestArgoDeploysWhatIsInGit(t *testing.T) {
	s := newArgoSite(t)
	s.deployed(t, s.git.commit(t, s.render(t, made(t, certificates()), made(t, addon.Issuer{CertManager: certificates()}), made(t, metallb()))))
	ready, err := s.get(t.Context(), "cert-manager.io", "v1", "clusterissuers", "", "homelab")
	require.NoError(t, err)
	require.NotNil(t, ready)
	assert.NotContains(t, strings.Join(s.releases(t), " "), "cert-manager", "there is no release")
	controller, err := s.core.AppsV1().Deployments("cert-manager").Get(t.Context(), "cert-manager", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "homelab-cert-manager:apps/Deployment:cert-manager/cert-manager", controller.Annotations["argocd.argoproj.io/tracking-id"])

	// What somebody changes is said, and stays until the next commit.
	patch := []byte(`{"spec":{"replicas":2}}`)
	_, err = s.core.AppsV1().Deployments("cert-manager").Patch(t.Context(), "cert-manager", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.says(t, "", "bundle/cert-manager: Modified → Ready [deployment cert-manager/cert-manager: it differs from Git")

	// A part that is taken out stays, and says so; so does it when its Application goes, as a person is told to.
	s.deployed(t, s.git.commit(t, s.render(t, made(t, certificates()), made(t, addon.Issuer{CertManager: certificates()}))))
	state, err := fleet.Observe(t.Context(), s.kube, fleet.StatusOptions{Tool: fleet.ToolArgo})
	require.NoError(t, err)
	assert.Contains(t, state.Bundles, fleet.BundleState{Name: "metallb", Part: "metallb", Cluster: "local", State: fleet.StateKept,
		Obstacles: []fleet.Obstacle{{Object: "application homelab-metallb", Reason: "it is no longer in Git, and what it deployed keeps running"}}})
	apps := s.dynamic.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}).Namespace("argocd")
	require.NoError(t, apps.Delete(t.Context(), "homelab-metallb", metav1.DeleteOptions{}))
	_, err = s.core.AppsV1().Deployments("metallb-system").Get(t.Context(), "metallb-controller", metav1.GetOptions{})
	require.NoError(t, err)
	controller, err = s.core.AppsV1().Deployments("cert-manager").Get(t.Context(), "cert-manager", metav1.GetOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, *controller.Spec.Replicas, "the commit has corrected it")
	s.storageByGit(t, fleet.ToolArgo, func(parts ...chart.Part) { s.deployed(t, s.git.commit(t, s.render(t, parts...))) })
}

// A commit that cannot be deployed is repeated, and the next one, which corrects it, arrives.
func TestArgoSaysWhatIsWrong(t *testing.T) {
	s := newArgoSite(t)
	tree := func() fleet.Tree { return s.render(t, made(t, metallb())) }
	s.deployed(t, s.git.commit(t, tree()))

	broken := tree()
	broken["kustomization.yaml"] = append(broken["kustomization.yaml"], "namePrefix: my-\n"...)
	s.says(t, s.git.commit(t, broken), "namePrefix")

	broken = tree()
	for name, text := range broken {
		broken[name] = []byte(strings.ReplaceAll(string(text), "version: "+made(t, metallb()).Release.Version, "version: 0.0.1"))
	}
	s.says(t, s.git.commit(t, broken), "no chart version found for metallb-0.0.1")

	broken = tree()
	for name, text := range broken {
		broken[name] = []byte(strings.ReplaceAll(string(text), "kind: IPAddressPool", "kind: IPAddressPond"))
	}
	s.says(t, s.git.commit(t, broken), `Make sure the "IPAddressPond" CRD is installed`)
	s.deployed(t, s.git.commit(t, tree()))
}
