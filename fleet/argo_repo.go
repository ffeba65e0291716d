package fleet

import (
	"context"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// argoObjects returns the project of our Applications, an Application for each folder, and the Secret with
// which Argo CD logs in.
func (g GitRepo) argoObjects(p place) ([]runtime.Object, *chart.Secret, error) {
	credentials, err := g.argoSecret(p)
	if err != nil {
		return nil, nil, err
	}
	from, err := argoSource(g.URL, g.Branch)
	if err != nil {
		return nil, nil, err
	}
	all := []any{map[string]any{"group": "*", "kind": "*"}}
	out := []runtime.Object{newObject(argoAPI, "AppProject", argoNamespace, argoProject, map[string]any{
		"description": "What homelab deploys from Git", "sourceRepos": []any{"*"},
		"destinations":             []any{map[string]any{"server": "https://kubernetes.default.svc", "namespace": "*"}},
		"clusterResourceWhitelist": all, "namespaceResourceWhitelist": all,
	})}
	for _, folder := range g.Paths {
		source := maps.Clone(from)
		source["path"] = folder
		// It never deletes an Application: without one nobody could tell what still runs.
		out = append(out, newObject(argoAPI, "Application", argoNamespace, argoRootName(folder), argoApply(source, argoNamespace)))
	}
	return out, credentials, nil
}

// argoSourceOf is [Tool.Source] of Argo CD.
func argoSourceOf(ctx context.Context, k *kube.Client) (GitRepo, error) {
	g := GitRepo{Tool: ToolArgo}
	all, err := k.List(ctx, argoAPI, "Application", argoNamespace, "")
	if _, err := exists(err); err != nil {
		return g, err
	}
	for i := range all {
		if folder := textAt(&all[i], "spec", "source", "path"); all[i].GetName() == argoRootName(folder) {
			g.URL, g.Branch = textAt(&all[i], "spec", "source", "repoURL"), textAt(&all[i], "spec", "source", "targetRevision")
			g.Paths = append(g.Paths, folder)
		}
	}
	return g, nil
}

// ApplicationOf names the Application of a bundle.
func ApplicationOf(bundle string) string { return argoPrefix + bundle }

// argoRootName names the Application of a folder.
func argoRootName(folder string) string {
	return argoRoot + strings.TrimPrefix(rootName(folder), argoPrefix)
}

// argoSecret is the Secret with which Argo CD logs in (docs/operator-manual/argocd-repositories.yaml). Host keys
// and authorities are not in it, but in ConfigMaps of Argo CD itself.
func (g GitRepo) argoSecret(p place) (*chart.Secret, error) {
	s := &chart.Secret{Namespace: argoNamespace, Name: g.name() + "-git",
		Labels: map[string]string{"argocd.argoproj.io/secret-type": "repository"},
		Data:   map[string]secret.Value{"type": secret.New("git"), "url": secret.New(p.fullURL()), "project": secret.New(argoProject)}}
	user, err := g.user(p)
	switch {
	case err != nil:
		return nil, err
	case p.scheme == "ssh":
		s.Data["sshPrivateKey"] = g.SSHKey
	case user == "":
		return nil, nil
	default:
		s.Data["username"], s.Data["password"] = secret.New(user), g.Password
	}
	return s, nil
}
