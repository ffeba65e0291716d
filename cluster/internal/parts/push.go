package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// repoState is the last known state of the repository.
type repoState struct {
	mu      sync.Mutex
	commit  string // of the branch
	pending bool   // the branch differs from the file

	state *fleet.State // of all bundles, at some time
	at    time.Time
	asked time.Time // when the branch was last checked while Fleet was at another commit
}

// FleetTree is the wanted content of the folder in Git.
func (s *Steps) FleetTree(ctx context.Context) (fleet.Tree, error) {
	parts, err := s.FleetParts(ctx)
	if err != nil {
		return nil, err
	}
	tree, err := platform.Tree(s.Spec, parts)
	return tree, converge.Permanent(err)
}

// pushStep keeps the folder in Git as in the file.
func (s *Steps) pushStep() *converge.Resource[*fleet.Repo] {
	return &converge.Resource[*fleet.Repo]{
		ID: "push/" + string(s.tool()),
		Observe: func(ctx context.Context) (*fleet.Repo, error) {
			tree, err := s.FleetTree(ctx)
			if err != nil {
				return nil, err
			}
			remote, err := s.FleetRemote()
			if err != nil {
				return nil, converge.Permanent(err)
			}
			repo, err := remote.Observe(ctx, tree)
			if err != nil {
				return nil, markPermanent(err)
			}
			s.pushed.mu.Lock()
			defer s.pushed.mu.Unlock()
			s.pushed.commit, s.pushed.pending, s.pushed.asked = repo.Commit, len(repo.Diff()) > 0, time.Now()
			return repo, nil
		},
		Diff: func(r *fleet.Repo) converge.Diff {
			d := slices.Clone(r.Diff())
			for i := range d { // dependent steps can be checked all the same
				if d[i].Effect == converge.Create && r.Commit != "" {
					d[i].Effect = converge.Update
				}
			}
			return d
		},
		Costs: costsOfPush,
		Apply: func(ctx context.Context, seen *fleet.Repo) error {
			tree, err := s.FleetTree(ctx)
			if err != nil {
				return err
			}
			remote, err := s.FleetRemote()
			if err != nil {
				return err
			}
			_, err = remote.Push(ctx, tree, fleet.PushOptions{Seen: seen})
			return markPermanent(err)
		},
		Settle: time.Minute,
		Poll:   run.LookAtGit,
	}
}

// markPermanent makes the permanent errors of Git permanent.
func markPermanent(err error) error {
	var foreign *fleet.ForeignError
	if errors.As(err, &foreign) {
		return converge.Permanent(err)
	}
	for _, kind := range []error{fleet.ErrCredentials, fleet.ErrHostKey, fleet.ErrNoRepository, fleet.ErrNoBranch, fleet.ErrRefused} {
		if errors.Is(err, kind) {
			return converge.Permanent(err)
		}
	}
	return err
}

// FleetRemote is the Git repository that the file names, and the credentials for it.
func (s *Steps) FleetRemote() (fleet.Remote, error) {
	f, via := s.Spec.Platform.GitOps()
	if f == nil || f.Repo == "" {
		return fleet.Remote{}, errors.New("the file names no Git repository: write fleet:, flux: or argocd: with {repo: URL}")
	}
	r := fleet.Remote{Tool: fleet.Tool(via), URL: f.Repo, Branch: f.Branch, Path: f.Path, Create: true, Username: f.Username, Author: f.Author, Dial: s.GitDial}
	login, err := platform.GitLogin(&s.Spec.Platform)
	if err != nil {
		return r, err
	}
	r.Password, r.CA = login.Password, login.CA
	if !login.SSHKey.IsZero() {
		signer, err := ssh.ParseSigner([]byte(login.SSHKey.Reveal()))
		if err != nil {
			return r, fmt.Errorf("%s.sshKey: %w", via, err)
		}
		r.Signers = []ssh.Signer{signer}
		r.HostKeys = ssh.NewKnownHosts(f.KnownHosts).HostKeys
	}
	return r, nil
}
