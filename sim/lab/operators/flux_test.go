package operators_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// fluxSite is a cluster in which Flux deploys the folder fleet of a repository.
type fluxSite struct {
	*site
	git *repository
}

func newFluxSite(t *testing.T) fluxSite {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return newFluxSiteWith(t, "# a comment\n"+key.String()+"\n")
}

// newFluxSiteWith is one whose Flux decrypts with a key.
func newFluxSiteWith(t *testing.T, key string) fluxSite {
	t.Helper()
	s := fluxSite{newSite(t), newRepository(t)}
	s.install(t, made(t, addon.Flux{Fleet: &spec.Fleet{}}), nil)
	from := fleet.GitRepo{Tool: fleet.ToolFlux, URL: "https://git.example/infra", Paths: []string{"fleet"}, Polling: time.Second, SOPSKey: secret.New(key)}
	objects, credentials, err := from.Objects()
	require.NoError(t, err)
	require.Nil(t, credentials)
	repo, ok := objects[0].(*unstructured.Unstructured)
	require.True(t, ok)
	require.NoError(t, unstructured.SetNestedField(repo.Object, "file://"+s.git.dir, "spec", "url"))
	_, err = s.kube.Apply(t.Context(), fleet.FluxHome())
	require.NoError(t, err)
	s.putKey(t, from.DecryptionKey())
	for _, o := range objects {
		eventually(t, 20*time.Second, "Flux takes its objects", func(ctx context.Context) error {
			_, err := s.kube.Apply(ctx, o)
			return err
		})
	}
	return s
}

// putKey writes a Secret with a key of SOPS.
func (s fluxSite) putKey(t *testing.T, key *chart.Secret) {
	t.Helper()
	o := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{}}
	for name, value := range key.Data {
		o.Data[name] = []byte(value.Reveal())
	}
	_, err := s.kube.Apply(t.Context(), o)
	require.NoError(t, err)
}

// render is what homelab writes for some parts.
func renderFlux(t *testing.T, parts ...chart.Part) fleet.Tree {
	t.Helper()
	bundles, err := fleet.BundlesOfAll(parts...)
	require.NoError(t, err)
	tree, err := fleet.Render(bundles, fleet.Options{Tool: fleet.ToolFlux, Path: "fleet"})
	require.NoError(t, err)
	return tree
}

func (s fluxSite) deployed(t *testing.T, commit string) {
	t.Helper()
	eventually(t, 100*time.Second, "Flux has deployed "+commit[:8], func(ctx context.Context) error {
		return s.lacks(ctx, commit)
	})
}

// lacks says what is missing until a commit is deployed.
func (s fluxSite) lacks(ctx context.Context, commit string) error {
	state, err := fleet.Observe(ctx, s.kube, fleet.StatusOptions{Tool: fleet.ToolFlux, Commit: commit})
	if err != nil {
		return err
	}
	if d := state.Diff(); !d.Empty() {
		return errors.New(d.String())
	}
	return nil
}

// says waits until the status has a text.
func (s fluxSite) says(t *testing.T, commit, text string) {
	t.Helper()
	eventually(t, 30*time.Second, "it is said: "+text, func(ctx context.Context) error {
		err := s.lacks(ctx, commit)
		if err != nil && strings.Contains(err.Error(), text) {
			return nil
		}
		return errors.Join(errors.New("not yet"), err)
	})
}

func TestFluxDeploysWhatIsInGit(t *testing.T) {
	s := newFluxSite(t)
	s.deployed(t, s.git.commit(t, renderFlux(t, made(t, certificates()), made(t, addon.Issuer{CertManager: certificates()}), made(t, metallb()))))
	ready, err := s.get(t.Context(), "cert-manager.io", "v1", "clusterissuers", "", "homelab")
	require.NoError(t, err)
	assert.NotNil(t, ready)
	assert.Subset(t, s.releases(t), []string{"cert-manager/cert-manager", "metallb-system/metallb"})
	controller, err := s.core.AppsV1().Deployments("cert-manager").Get(t.Context(), "cert-manager", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "cert-manager", controller.Labels["helm.toolkit.fluxcd.io/name"])

	// A part that is taken out is uninstalled; one with data stays, and says so.
	commit := s.git.commit(t, renderFlux(t, made(t, metallb())))
	s.deployed(t, commit)
	assert.Subset(t, s.releases(t), []string{"cert-manager/cert-manager", "metallb-system/metallb"}, "cert-manager keeps its resources")
	state, err := fleet.Observe(t.Context(), s.kube, fleet.StatusOptions{Tool: fleet.ToolFlux})
	require.NoError(t, err)
	assert.Contains(t, state.Bundles, fleet.BundleState{Name: "cert-manager", Part: "cert-manager", Cluster: "local", State: fleet.StateKept,
		Obstacles: []fleet.Obstacle{{Object: "helmrelease cert-manager", Reason: "it is no longer in Git, and keeps running"}}})
	commit = s.git.commit(t, renderFlux(t, made(t, addon.Issuer{CertManager: certificates()})))
	s.deployed(t, commit)
	eventually(t, 30*time.Second, "metallb is uninstalled", func(context.Context) error {
		if all := strings.Join(s.releases(t), " "); strings.Contains(all, "metallb-system/metallb") {
			return errors.New(all)
		}
		return nil
	})
	_, err = s.core.CoreV1().Namespaces().Get(t.Context(), "metallb-system", metav1.GetOptions{})
	require.NoError(t, err, "a namespace is never deleted")
	s.storageByGit(t, fleet.ToolFlux, func(parts ...chart.Part) { s.deployed(t, s.git.commit(t, renderFlux(t, parts...))) })
}

func TestFluxSaysWhatIsWrong(t *testing.T) {
	s := newFluxSite(t)
	tree := func() fleet.Tree { return renderFlux(t, made(t, metallb())) }
	s.deployed(t, s.git.commit(t, tree()))

	broken := tree()
	broken["kustomization.yaml"] = append(broken["kustomization.yaml"], "namePrefix: my-\n"...)
	s.says(t, s.git.commit(t, broken), "namePrefix")

	broken = tree()
	broken["metallb/flux.yaml"] = []byte(strings.Replace(string(broken["metallb/flux.yaml"]), "prune:", "dependsOn: [{name: nowhere}]\n  prune:", 1))
	s.says(t, s.git.commit(t, broken), "dependency 'homelab-flux/nowhere' not found")

	broken = tree()
	for name, text := range broken {
		broken[name] = []byte(strings.ReplaceAll(string(text), "version: "+made(t, metallb()).Release.Version, "version: 0.0.1"))
	}
	s.says(t, s.git.commit(t, broken), "no chart version found for metallb-0.0.1")
	assert.Contains(t, s.releases(t), "metallb-system/metallb", "what is deployed stays")
	s.deployed(t, s.git.commit(t, tree()))

	s.putKey(t, fleet.GitRepo{SOPSKey: secret.New("AGE-SECRET-KEY-1")}.DecryptionKey())
	s.says(t, s.git.commit(t, fleet.Tree{"kustomization.yaml": []byte("resources: []\n")}), "failed to import 'homelab.agekey' data from sops decryption Secret 'homelab-flux/sops-age'")
}
