package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/spec"
)

// fleetSteps brings the parts that Fleet deploys: their Secrets, which never go to
// Git; one push of all the rest; and then, for each, waiting until Fleet is done.
func (s *Steps) fleetSteps(up *converge.Graph, pieces []platform.Piece, on Ground, ready Refs) {
	var through []platform.Piece
	for _, p := range pieces {
		if p.Via == spec.ViaFleet {
			through = append(through, p)
		}
	}
	i := slices.IndexFunc(pieces, func(p platform.Piece) bool { return p.Name == platform.GitOps })
	if i < 0 {
		return
	}
	running := up.Add(s.fleetStep(), on.under(pieces[i], ready)...)

	// Fleet begins as soon as it reads the push: what it cannot bring is there by then.
	before := []*converge.Ref{running}
	for _, p := range through {
		needs := on.under(p, ready)
		if p.Early() {
			needs = []*converge.Ref{up.Add(s.secretsStep(p), append(needs, running)...)}
		}
		before = append(before, needs...)
	}
	push := running // folders that are somebody else's need no push of ours
	if len(through) > 0 {
		push = up.Add(s.pushStep(), before...)
	}
	source := s.AddPart(up, pieces[i], Ground{API: push}, nil)
	for _, p := range through {
		needs := []*converge.Ref{source}
		for _, name := range p.Needs {
			needs = append(needs, ready[name])
		}
		ready[p.Name] = up.Add(s.bundleStep(p), needs...)
		for _, class := range p.Classes {
			ready[p.Name] = up.Add(s.storageStep(p, class), append(on.Nodes, ready[p.Name])...)
		}
	}
	ready[platform.GitOps] = source
}

// fleetTime is how long Fleet may take to come up: Rancher brings it some minutes
// after it is ready itself.
const fleetTime = 15 * time.Minute

// fleetStep waits until Fleet can deploy something.
func (s *Steps) fleetStep() *converge.Resource[string] {
	return &converge.Resource[string]{
		ID: "ready/fleet",
		Observe: func(ctx context.Context) (string, error) {
			client, err := s.Kube(ctx)
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
		Poll:   run.LookAtGit,
	}
}

// FleetParts are the parts that Fleet deploys. Values that only the running cluster knows
// are read from it, and left out if there is no cluster yet.
func (s *Steps) FleetParts(ctx context.Context) ([]chart.Part, error) {
	pieces, err := s.Make()
	if err != nil {
		return nil, err
	}
	var out []chart.Part
	for _, p := range pieces {
		if p.Via != spec.ViaFleet {
			continue
		}
		if p.Late != nil {
			client, err := s.Kube(ctx)
			if err != nil {
				return nil, err
			}
			now, err := p.Now(ctx, client)
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

// oneFleet refuses to install what would make two Fleets.
func (s *Steps) oneFleet(ctx context.Context, p platform.Piece) error {
	if p.Name != "fleet" && p.Name != "rancher" {
		return nil
	}
	client, err := s.Kube(ctx)
	if err != nil {
		return err
	}
	copies, err := fleet.ObserveCopies(ctx, client)
	if err != nil {
		return err
	}
	return converge.Permanent(copies.Fits(p.Name == "fleet"))
}
