package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// fleetSteps adds the steps for the parts that Fleet deploys: their Secrets, which are never
// pushed to Git; one push of everything else; and, for each part, a wait until Fleet is done. It returns the last
// step of all, which has no part if nothing goes through Git.
func (s *Steps) fleetSteps(up *converge.Graph, pieces []addon.Recipe, on Ground, ready Refs) (last *converge.Ref) {
	var through []addon.Recipe
	for _, p := range pieces {
		if p.InGit() {
			through = append(through, p)
		}
	}
	i := slices.IndexFunc(pieces, func(p addon.Recipe) bool { return p.Name == platform.GitOps })
	if i < 0 {
		return emptyFolder{s}.add(up, on.API)
	}
	running := up.Add(s.fleetStep(), on.dependencies(pieces[i], ready)...)

	// Fleet starts when it reads the push. What Fleet cannot deploy itself must exist by then.
	before := []*converge.Ref{running}
	for _, p := range through {
		needs := on.dependencies(p, ready)
		if p.NeedsObjectsFirst() {
			needs = []*converge.Ref{up.Add(s.secretsStep(p), append(needs, running)...)}
		}
		before = append(before, needs...)
	}
	var push *converge.Ref
	if len(through) > 0 {
		push = up.Add(s.pushStep(), before...)
	} else { // folders of another owner need no push by this cluster
		push = emptyFolder{s}.add(up, running)
	}
	source := s.AddPart(up, pieces[i], Ground{API: push}, nil)
	for _, p := range through {
		needs := []*converge.Ref{source}
		for _, name := range p.Needs {
			needs = append(needs, ready[name])
		}
		if len(p.Classes) > 0 {
			needs = []*converge.Ref{up.Add(classesStep(s, p), needs...)}
		}
		ready[p.Name] = up.Add(s.bundleStep(p), needs...)
		for _, probe := range p.Probes {
			ready[p.Name] = up.Add(s.storageStep(probe), append(slices.Clone(on.Nodes), ready[p.Name])...)
		}
	}
	ready[platform.GitOps] = source
	return source
}

// tool is the program that deploys from Git.
func (s *Steps) tool() fleet.Tool {
	_, via := s.Spec.Platform.GitOps()
	return fleet.Tool(via)
}

// fleetTime is how long Fleet may take to start: Rancher installs it some minutes after Rancher
// itself is ready.
const fleetTime = 15 * time.Minute

// fleetStep waits until Fleet can deploy something.
func (s *Steps) fleetStep() *converge.Resource[string] {
	return &converge.Resource[string]{
		ID: "ready/" + string(s.tool()),
		Observe: func(ctx context.Context) (string, error) {
			client, err := s.Kube(ctx)
			if err != nil {
				return "", err
			}
			if err := s.checkOtherTool(ctx, client); err != nil {
				return "", err
			}
			return s.tool().UnreadyReason(ctx, client)
		},
		Diff: func(why string) converge.Diff {
			if why == "" {
				return nil
			}
			return converge.Diff{{Have: why, Want: s.tool().Title() + " deploys to this cluster", Effect: converge.Create}}
		},
		Settle: fleetTime,
		Poll:   run.LookAtGit,
	}
}

// checkOtherTool refuses to deploy with one tool what another still deploys.
func (s *Steps) checkOtherTool(ctx context.Context, client *kube.Client) error {
	for _, other := range fleet.Tools() {
		if other == s.tool() {
			continue
		}
		state, err := fleet.Observe(ctx, client, fleet.StatusOptions{Tool: other})
		if err != nil {
			return err
		}
		if len(state.Bundles) > 0 {
			return converge.Permanent(fmt.Errorf("%s still deploys bundle %s, and the two would undo each other's work: take it from %s first, as docs/gitops.md says under \"Switching\"",
				other.Title(), state.Bundles[0].Name, other.Title()))
		}
	}
	return nil
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
		if !p.InGit() {
			continue
		}
		if p.Late != nil {
			client, err := s.Kube(ctx)
			if err != nil {
				return nil, err
			}
			now, err := p.Resolve(ctx, client)
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

// checkOnlyFleet refuses to install a part that would add a second Fleet, Flux or Argo CD.
func (s *Steps) checkOnlyFleet(ctx context.Context, p addon.Recipe) error {
	if !p.Fleet {
		return nil
	}
	client, err := s.Kube(ctx)
	if err != nil {
		return err
	}
	switch p.Name {
	case string(fleet.ToolFlux):
		return converge.Permanent(fleet.CheckNoFlux(ctx, client))
	case string(fleet.ToolArgo):
		return converge.Permanent(fleet.CheckNoArgo(ctx, client))
	}
	copies, err := fleet.ObserveCopies(ctx, client)
	if err != nil {
		return err
	}
	return converge.Permanent(copies.CheckCompatible(p.Name == "fleet"))
}
