package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// gitops is the part that points Fleet at the repository.
const gitops = "gitops"

// fleetSteps brings the parts that Fleet deploys: their Secrets, which never go to
// Git; one push of all the rest; and then, for each, waiting until Fleet is done.
func (c *Cluster) fleetSteps(up *converge.Graph, pieces []piece, on ground, ready refs) {
	var through []piece
	for _, p := range pieces {
		if p.via == ViaFleet {
			through = append(through, p)
		}
	}
	i := slices.IndexFunc(pieces, func(p piece) bool { return p.Name == gitops })
	if i < 0 {
		return
	}
	running := up.Add(c.fleetStep(), on.under(pieces[i], ready)...)

	// Fleet begins as soon as it reads the push: what it cannot bring is there by then.
	before := []*converge.Ref{running}
	for _, p := range through {
		needs := on.under(p, ready)
		if p.early() {
			needs = []*converge.Ref{up.Add(c.secretsStep(p), append(needs, running)...)}
		}
		before = append(before, needs...)
	}
	push := running // folders that are somebody else's need no push of ours
	if len(through) > 0 {
		push = up.Add(c.pushStep(), before...)
	}
	source := c.partSteps(up, pieces[i], ground{api: push}, nil)
	for _, p := range through {
		needs := []*converge.Ref{source}
		for _, name := range p.Needs {
			needs = append(needs, ready[name])
		}
		ready[p.Name] = up.Add(c.bundleStep(p), needs...)
		for _, class := range p.Classes {
			ready[p.Name] = up.Add(c.storageStep(p, class), append(on.nodes, ready[p.Name])...)
		}
	}
	ready[gitops] = source
}

// early reports whether something of a part that goes through Git must be in the
// cluster beforehand: Secrets, and labels of its namespace that Fleet does not set.
func (p piece) early() bool { return len(p.Secrets) > 0 || len(p.NamespaceLabels) > 0 }

// fleetTime is how long Fleet may take to come up: Rancher brings it some minutes
// after it is ready itself.
const fleetTime = 15 * time.Minute

// fleetStep waits until Fleet can deploy something.
func (c *Cluster) fleetStep() *converge.Resource[string] {
	return &converge.Resource[string]{
		ID: "ready/fleet",
		Observe: func(ctx context.Context) (string, error) {
			client, err := c.kube(ctx)
			if err != nil {
				return "", err
			}
			return fleet.Ready(ctx, client)
		},
		Diff: func(why string) drift.Diff {
			if why == "" {
				return nil
			}
			return drift.Diff{{Have: why, Want: "Fleet deploys to this cluster", Effect: drift.Create}}
		},
		Settle: fleetTime,
		Poll:   lookAtGit,
	}
}

// pushed is what the repository was last seen to be.
type pushed struct {
	mu      sync.Mutex
	commit  string // of the branch
	pending bool   // it is not yet what the file says

	state *fleet.State // of all bundles, as at a time
	at    time.Time
	asked time.Time // when the branch was last looked at while Fleet was elsewhere
}

// FleetTree is the folder in Git, as it should be.
func (c *Cluster) FleetTree(ctx context.Context) (fleet.Tree, error) {
	parts, err := c.FleetParts(ctx)
	if err != nil {
		return nil, err
	}
	tree, err := c.spec.fleetTree(parts)
	return tree, converge.Permanent(err)
}

// FleetTree is the folder in Git as far as the file alone tells, and what it assumes of
// the rest, in words. [Cluster.FleetTree] asks the cluster instead. It is nil when no
// part goes through Git.
func (s *Spec) FleetTree() (tree fleet.Tree, assumed []string, err error) {
	pieces, err := s.parts(false)
	if err != nil {
		return nil, nil, err
	}
	var parts []chart.Part
	for _, p := range pieces {
		if p.via == ViaFleet {
			parts, assumed = append(parts, p.Part), append(assumed, p.assumes...)
		}
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	tree, err = s.fleetTree(parts)
	return tree, assumed, err
}

func (s *Spec) fleetTree(parts []chart.Part) (fleet.Tree, error) {
	if s.Platform.Fleet == nil {
		return nil, errors.New("the file has no fleet: write fleet: {repo: URL}, and charts.via says what goes through it")
	}
	bundles, err := fleet.FromParts(parts...)
	if err != nil {
		return nil, err
	}
	return fleet.Render(bundles, fleet.Options{Cluster: s.Name, Source: filepath.Base(s.File), Path: s.Platform.Fleet.Path})
}

// pushStep keeps the folder in Git as the file says.
func (c *Cluster) pushStep() *converge.Resource[*fleet.Repo] {
	return &converge.Resource[*fleet.Repo]{
		ID: "push/fleet",
		Observe: func(ctx context.Context) (*fleet.Repo, error) {
			tree, err := c.FleetTree(ctx)
			if err != nil {
				return nil, err
			}
			remote, err := c.FleetRemote()
			if err != nil {
				return nil, converge.Permanent(err)
			}
			repo, err := remote.Observe(ctx, tree)
			if err != nil {
				return nil, lasting(err)
			}
			c.pushed.mu.Lock()
			defer c.pushed.mu.Unlock()
			c.pushed.commit, c.pushed.pending, c.pushed.asked = repo.Commit, len(repo.Diff()) > 0, time.Now()
			return repo, nil
		},
		Diff: func(r *fleet.Repo) drift.Diff {
			d := slices.Clone(r.Diff())
			for i := range d { // what depends on it can be looked at all the same
				if d[i].Effect == drift.Create && r.Commit != "" {
					d[i].Effect = drift.Update
				}
			}
			return d
		},
		Costs: costsOfPush,
		Apply: func(ctx context.Context, seen *fleet.Repo) error {
			tree, err := c.FleetTree(ctx)
			if err != nil {
				return err
			}
			remote, err := c.FleetRemote()
			if err != nil {
				return err
			}
			_, err = remote.Push(ctx, tree, fleet.PushOptions{Seen: seen})
			return lasting(err)
		},
		Settle: time.Minute,
		Poll:   lookAtGit,
	}
}

// lasting marks errors of Git that another try does not mend.
func lasting(err error) error {
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

// bundleTime is how long Fleet may take for a part: it reads, installs, pulls images.
const bundleTime = 15 * time.Minute

// bundleStep waits until Fleet has deployed a part, as the last commit has it.
func (c *Cluster) bundleStep(p piece) *converge.Resource[drift.Diff] {
	return &converge.Resource[drift.Diff]{
		ID: "fleet/" + p.Name,
		Observe: func(ctx context.Context) (drift.Diff, error) {
			state, pending, err := c.fleetState(ctx)
			if err != nil {
				return nil, err
			}
			if pending {
				return drift.Diff{{Have: "an earlier commit", Want: "the one that is to be pushed", Effect: drift.Update}}, nil
			}
			return state.Part(p.Name), nil
		},
		Diff:   func(d drift.Diff) drift.Diff { return d },
		Settle: bundleTime,
		Poll:   lookEvery,
		Hint:   "go tool mage fleet:status says which object is in the way; run it again and it goes on from here",
	}
}

// stateAge is how old a look at all bundles may be that several steps share.
const stateAge = time.Second

// fleetState looks at all bundles, once for all steps that wait for theirs.
func (c *Cluster) fleetState(ctx context.Context) (state *fleet.State, pending bool, err error) {
	client, err := c.kube(ctx)
	if err != nil {
		return nil, false, err
	}
	c.pushed.mu.Lock()
	defer c.pushed.mu.Unlock()
	if c.pushed.pending || c.pushed.state != nil && c.pushed.state.Want == c.pushed.commit && time.Since(c.pushed.at) < stateAge {
		return c.pushed.state, c.pushed.pending, nil
	}
	state, err = fleet.Observe(ctx, client, fleet.StatusOptions{Commit: c.pushed.commit})
	if err != nil {
		return nil, false, err
	}
	c.pushed.state, c.pushed.at = state, time.Now()
	if state.Commit != "" && state.Commit != c.pushed.commit && time.Since(c.pushed.asked) > movedTime {
		c.pushed.asked = time.Now()
		return state, false, c.follow(ctx)
	}
	return state, false, nil
}

// movedTime is how often the branch is looked at again while Fleet is at another commit.
const movedTime = 30 * time.Second

// follow waits for the branch as it is now: others push to it too, and Fleet may never
// be at our commit, but at a later one that has our folder as it should be.
func (c *Cluster) follow(ctx context.Context) error {
	tree, err := c.FleetTree(ctx)
	if err != nil {
		return err
	}
	remote, err := c.FleetRemote()
	if err != nil {
		return err
	}
	repo, err := remote.Observe(ctx, tree)
	if err == nil && repo.Diff().Empty() {
		c.pushed.commit = repo.Commit
	}
	return err
}

// stillFleets is an error for a part that is to be applied directly while Fleet has it:
// when Fleet lets go of it, it takes it away.
func (c *Cluster) stillFleets(ctx context.Context, client *kube.Client, p piece) error {
	if f := c.spec.Platform.Fleet; f == nil || f.Repo == "" || p.base || p.network {
		return nil
	}
	state, err := fleet.Observe(ctx, client, fleet.StatusOptions{})
	if err != nil {
		return err
	}
	for _, b := range state.Bundles {
		if b.Part == p.Name {
			return converge.Permanent(fmt.Errorf("Fleet still deploys %s (bundle %s), and would take it away when it lets go of it: "+
				"take it out of Git first with go tool mage fleet:push, and run this again when fleet:status no longer shows it", p.Name, b.Name))
		}
	}
	return nil
}

// FleetState looks at what Fleet has made of the repository. With a commit it is not
// content with an earlier one.
func (c *Cluster) FleetState(ctx context.Context, commit string) (*fleet.State, error) {
	client, err := c.kube(ctx)
	if err != nil {
		return nil, err
	}
	return fleet.Observe(ctx, client, fleet.StatusOptions{Commit: commit})
}

// FleetParts are those that go through Fleet. What only the living cluster can tell
// of them is asked of it, and left out where it is not there yet.
func (c *Cluster) FleetParts(ctx context.Context) ([]chart.Part, error) {
	pieces, err := c.platformParts()
	if err != nil {
		return nil, err
	}
	var out []chart.Part
	for _, p := range pieces {
		if p.via != ViaFleet {
			continue
		}
		if p.late != nil {
			client, err := c.kube(ctx)
			if err != nil {
				return nil, err
			}
			now, err := p.now(ctx, client)
			if err != nil && !errors.Is(err, kube.ErrNotFound) {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			if err == nil {
				p = now
			}
		}
		out = append(out, p.Part)
	}
	return out, nil
}

// Kube returns the way to the cluster's API.
func (c *Cluster) Kube(ctx context.Context) (*kube.Client, error) { return c.kube(ctx) }

// FleetRemote is the Git repository that the file names, and the way in.
func (c *Cluster) FleetRemote() (fleet.Remote, error) {
	f := c.spec.Platform.Fleet
	if f == nil || f.Repo == "" {
		return fleet.Remote{}, errors.New("the file names no Git repository: write fleet: {repo: URL}")
	}
	r := fleet.Remote{URL: f.Repo, Branch: f.Branch, Path: f.Path, Create: true, Username: f.Username, Author: f.Author, Dial: c.GitDial}
	login, err := f.login()
	if err != nil {
		return r, err
	}
	r.Password, r.CA = login.Password, login.CA
	if !login.SSHKey.IsZero() {
		signer, err := ssh.ParseSigner([]byte(login.SSHKey.Reveal()))
		if err != nil {
			return r, fmt.Errorf("fleet.sshKey: %w", err)
		}
		r.Signers = []ssh.Signer{signer}
		r.HostKeys = ssh.NewKnownHosts(f.KnownHosts).HostKeys
	}
	return r, nil
}

// login is what the repository is logged in to with: by us, and by Fleet.
func (f *Fleet) login() (fleet.GitRepo, error) {
	g := fleet.GitRepo{URL: f.Repo, Branch: f.Branch, Polling: f.Polling, Username: f.Username}
	var err error
	if !f.Password.IsZero() {
		if g.Password, err = f.Password.Resolve(); err != nil {
			return g, fmt.Errorf("fleet.password: %w", err)
		}
	}
	if !f.SSHKey.IsZero() {
		if g.SSHKey, err = f.SSHKey.Resolve(); err != nil {
			return g, fmt.Errorf("fleet.sshKey: %w", err)
		}
		known, err := os.ReadFile(f.KnownHosts)
		if err != nil {
			return g, fmt.Errorf("fleet.knownHosts: %w", err)
		}
		g.KnownHosts = string(known)
	}
	if f.CAFile != "" {
		if g.CA, err = os.ReadFile(f.CAFile); err != nil {
			return g, fmt.Errorf("fleet.ca: %w", err)
		}
	}
	return g, nil
}

// oneFleet refuses to install what would make two Fleets.
func (c *Cluster) oneFleet(ctx context.Context, p piece) error {
	if p.Name != "fleet" && p.Name != "rancher" {
		return nil
	}
	client, err := c.kube(ctx)
	if err != nil {
		return err
	}
	copies, err := fleet.ObserveCopies(ctx, client)
	if err != nil {
		return err
	}
	return converge.Permanent(copies.Fits(p.Name == "fleet"))
}
