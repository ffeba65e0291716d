package fleet

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// fluxObjects returns the GitRepository, a Kustomization for each folder, and the Secret with which Flux
// logs in.
func (g GitRepo) fluxObjects(p place) ([]runtime.Object, *chart.Secret, error) {
	credentials, err := g.fluxSecret(p)
	if err := errors.Join(err, g.checkKey()); err != nil {
		return nil, nil, err
	}
	if g.Polling <= 0 {
		g.Polling = defaultPolling
	}
	if g.Branch == "" {
		g.Branch = defaultBranch
	}
	from := map[string]any{"interval": g.Polling.String(), "url": p.fullURL(), "ref": map[string]any{"branch": g.Branch}}
	if credentials != nil {
		from["secretRef"] = map[string]any{"name": credentials.Name}
	}
	out := []runtime.Object{newObject(fluxSource, "GitRepository", fluxNamespace, defaultRepoName, from)}
	for _, folder := range g.Paths {
		spec := fluxApply(folder)
		// Without the root, or with a folder that is gone, what is deployed stays.
		spec["prune"], spec["deletionPolicy"] = true, "Orphan"
		if !g.SOPSKey.IsZero() {
			spec["decryption"] = map[string]any{"provider": "sops", "secretRef": map[string]any{"name": fluxKeySecret}}
		}
		out = append(out, newObject(fluxKustomize, "Kustomization", fluxNamespace, rootName(folder), spec))
	}
	return out, credentials, nil
}

// fluxKeySecret names the Secret with the key of SOPS. It is beside our Kustomizations, so it cannot be one that is there.
const fluxKeySecret = "sops-age"

// DecryptionKey is the Secret with which Flux decrypts; nil without a key. Flux takes each of its entries that ends so for an
// age key (kustomize-controller v1.9.0 internal/decryptor/decryptor.go, ImportKeys).
func (g GitRepo) DecryptionKey() *chart.Secret {
	if g.SOPSKey.IsZero() {
		return nil
	}
	return &chart.Secret{Namespace: fluxNamespace, Name: fluxKeySecret, Data: map[string]secret.Value{"homelab.agekey": g.SOPSKey}}
}

// checkKey refuses a key that is not one of age.
func (g GitRepo) checkKey() error {
	if !g.SOPSKey.IsZero() && !strings.Contains(g.SOPSKey.Reveal(), "AGE-SECRET-KEY-") {
		return errors.New("flux.sopsKey is not an age key: no line of it begins with AGE-SECRET-KEY-, as age-keygen writes it")
	}
	return nil
}

// fluxSourceOf is [Tool.Source] of Flux.
func fluxSourceOf(ctx context.Context, k *kube.Client) (GitRepo, error) {
	u := newObject(fluxSource, "GitRepository", fluxNamespace, defaultRepoName, nil)
	if there, err := exists(k.Get(ctx, u)); err != nil || !there {
		return GitRepo{}, err
	}
	g := GitRepo{Tool: ToolFlux, URL: textAt(u, "spec", "url"), Branch: textAt(u, "spec", "ref", "branch")}
	all, err := k.List(ctx, fluxKustomize, "Kustomization", fluxNamespace, "")
	if _, err := exists(err); err != nil {
		return GitRepo{}, err
	}
	for i := range all {
		if folder := strings.TrimPrefix(textAt(&all[i], "spec", "path"), "./"); all[i].GetName() == rootName(folder) {
			g.Paths = append(g.Paths, folder)
		}
	}
	return g, nil
}

// FluxHome is the namespace of the objects that homelab makes for Flux.
func FluxHome() runtime.Object { return newObject("v1", "Namespace", "", fluxNamespace, nil) }

// fluxSecret is the Secret with which Flux logs in: its keys are those that Flux reads (source-controller
// docs/spec/v1/gitrepositories.md, Secret reference).
func (g GitRepo) fluxSecret(p place) (*chart.Secret, error) {
	s := &chart.Secret{Namespace: fluxNamespace, Name: g.name() + "-git", Data: map[string]secret.Value{}}
	user, err := g.user(p)
	if err != nil {
		return nil, err
	}
	if p.scheme == "ssh" {
		s.Data["identity"], s.Data["known_hosts"] = g.SSHKey, secret.New(g.KnownHosts)
		return s, nil
	}
	if user != "" {
		s.Data["username"], s.Data["password"] = secret.New(user), g.Password
	}
	if len(g.CA) > 0 {
		s.Data["ca.crt"] = secret.New(string(g.CA))
	}
	if len(s.Data) == 0 {
		return nil, nil
	}
	return s, nil
}
