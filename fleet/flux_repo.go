package fleet

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// fluxObjects returns the GitRepository, a Kustomization for each folder, and the Secret with which Flux
// logs in.
func (g GitRepo) fluxObjects(p place) ([]runtime.Object, *chart.Secret, error) {
	credentials, err := g.fluxSecret(p)
	if err != nil {
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
		out = append(out, newObject(fluxKustomize, "Kustomization", fluxNamespace, rootName(folder), spec))
	}
	return out, credentials, nil
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
