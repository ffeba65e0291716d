package fleet

import (
	"errors"
	"fmt"

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
	if p.scheme == "ssh" {
		switch {
		case g.SSHKey.IsZero():
			return nil, fmt.Errorf("the Git repository %s is reached by SSH, and there is no key that Flux could use (flux.sshKey)", p.text)
		case g.KnownHosts == "":
			return nil, errors.New("Flux refuses a Git server whose host key it does not know: name a known_hosts file (flux.knownHosts)")
		}
		s.Data["identity"], s.Data["known_hosts"] = g.SSHKey, secret.New(g.KnownHosts)
		return s, nil
	}
	if !g.Password.IsZero() {
		user := g.Username
		if user == "" {
			user = p.user
		}
		if user == "" {
			return nil, fmt.Errorf("the Git repository %s has a password and no user: Flux needs both, and with a token nearly any name works (flux.username)", p.text)
		}
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
