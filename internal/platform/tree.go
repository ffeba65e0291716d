package platform

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/kube/chart"
)

// FleetTree is the folder in Git as far as the file alone tells, and what it assumes of
// the rest, in words. FleetTree of a Cluster asks the cluster instead. It is nil when no
// part goes through Git.
func FleetTree(s *spec.Spec) (tree fleet.Tree, assumed []string, err error) {
	pieces, err := Pieces(s, false)
	if err != nil {
		return nil, nil, err
	}
	var parts []chart.Part
	for _, p := range pieces {
		if p.InGit() {
			parts, assumed = append(parts, p.Part), append(assumed, p.Assumes...)
		}
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	tree, err = Tree(s, parts)
	return tree, assumed, err
}

func Tree(s *spec.Spec, parts []chart.Part) (fleet.Tree, error) {
	f, via := s.Platform.GitOps()
	if f == nil {
		return nil, errors.New("the file names no Git repository: write fleet:, flux: or argocd: with {repo: URL}, and charts.via says what goes through it")
	}
	parts, err := fromMirror(s, parts)
	if err != nil {
		return nil, err
	}
	bundles, err := fleet.BundlesOfAll(parts...)
	if err != nil {
		return nil, err
	}
	return fleet.Render(bundles, fleet.Options{Tool: fleet.Tool(via), Cluster: s.Name, Source: filepath.Base(s.File), Path: f.Path, Repo: f.Repo, Branch: f.Branch})
}

// GitLogin returns the credentials of the repository, for us and for the tool.
func GitLogin(p *spec.Platform) (fleet.GitRepo, error) {
	f, via := p.GitOps()
	g := fleet.GitRepo{Tool: fleet.Tool(via), URL: f.Repo, Branch: f.Branch, Polling: f.Polling, Username: f.Username}
	var err error
	if !f.Password.IsZero() {
		if g.Password, err = f.Password.Resolve(); err != nil {
			return g, fmt.Errorf("%s.password: %w", via, err)
		}
	}
	if !f.SSHKey.IsZero() {
		if g.SSHKey, err = f.SSHKey.Resolve(); err != nil {
			return g, fmt.Errorf("%s.sshKey: %w", via, err)
		}
		known, err := limit.File(f.KnownHosts, limit.Named)
		if err != nil {
			return g, fmt.Errorf("%s.knownHosts: %w", via, err)
		}
		g.KnownHosts = string(known)
	}
	if !f.SOPSKey.IsZero() {
		if g.SOPSKey, err = f.SOPSKey.Resolve(); err != nil {
			return g, fmt.Errorf("%s.sopsKey: %w", via, err)
		}
	}
	if f.CAFile != "" {
		if g.CA, err = limit.File(f.CAFile, limit.Named); err != nil {
			return g, fmt.Errorf("%s.ca: %w", via, err)
		}
	}
	return g, nil
}
