package parts

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// SortPart is the sort of costs that are about a part of the platform.
const SortPart = "part"

// NotLooked replaces the list of lost data for a part that could not be checked.
const NotLooked = "cannot find out which data goes with it: "

// UnknownLoss is what a part holds that could not be checked.
func UnknownLoss(err error) []converge.Loss {
	return []converge.Loss{{Text: NotLooked + printable.FirstLine(err.Error()), Unknown: true}}
}

// costsOfChart is what a changed release destroys: the parts that it replaces, and claims
// that it no longer has.
func (s *Steps) costsOfChart(ctx context.Context, seen chartState, d converge.Diff) []converge.Cost {
	out := append(s.costsOfClaims(ctx, d), s.costsOfOperator(ctx, seen.part.Name, d)...)
	return append(out, s.costsOfReplaced(ctx, seen.part)...)
}

// costsOfReplaced are those of removing the parts that a part replaces.
func (s *Steps) costsOfReplaced(ctx context.Context, p addon.Recipe) (out []converge.Cost) {
	for _, name := range p.Replaces {
		client, err := s.Kube(ctx)
		var old *Record
		if err == nil {
			old, err = readRecord(ctx, client, name)
		}
		switch why := p.Name + " replaces it"; {
		case err != nil:
			out = append(out, converge.Cost{Machine: name, Object: SortPart, Kind: converge.CostDestroy, Reason: why, Holds: UnknownLoss(err)})
		case old != nil:
			out = append(out, s.Retires(ctx, client, *old, why)...)
		}
	}
	return out
}

// costsOfClaims are the claims and databases among the objects that a part had in an earlier file. If a
// volume is kept without its claim, its data is not lost.
func (s *Steps) costsOfClaims(ctx context.Context, d converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, f := range d {
		if name, is := strings.CutPrefix(f.Path, databasePath); is && f.Effect == converge.Remove {
			out = append(out, s.costOfDatabase(ctx, name))
		}
		name, ok := strings.CutPrefix(f.Path, "persistentvolumeclaim/")
		if !ok || f.Effect != converge.Remove {
			continue
		}
		cost := converge.Cost{Machine: name, Object: "claim", Kind: converge.CostDestroy, Reason: "a claim that is no longer in the file"}
		namespace, claim, _ := strings.Cut(name, "/")
		w, err := s.Work(ctx)
		if err != nil || w == nil {
			out = append(out, cost)
			continue
		}
		if what, lost := w.Claim(namespace, claim); lost {
			cost.Holds = []converge.Loss{what}
			out = append(out, cost)
		}
	}
	return out
}

// Retires is the cost of removing a part from the cluster, after those that leave before it; none if it must
// stay.
func (s *Steps) Retires(ctx context.Context, client *kube.Client, r Record, why string, leaving ...Record) []converge.Cost {
	if errors.As(s.CheckUnused(ctx, client, r, leaving...), new(InUse)) {
		return nil
	}
	cost := converge.Cost{Machine: r.Part, Object: SortPart, Kind: converge.CostDestroy, Reason: why}
	w, err := s.Work(ctx)
	if err != nil || w == nil {
		cost.Holds = UnknownLoss(cmp.Or(err, errors.New("its API does not answer")))
		return []converge.Cost{cost}
	}
	cost.Holds = w.ClaimsOf(r.Namespace, r.Release)
	for _, ref := range slices.Concat(r.After, r.Before) {
		if ref.APIVersion == addon.PostgresAPI && ref.Kind == addon.PostgresKind {
			cost.Holds = append(cost.Holds, w.ClaimsLabelled(ref.Namespace, addon.PostgresLabel, ref.Name)...)
		}
		if ref.Kind == "GitRepo" {
			cost.Holds = append(cost.Holds, bundlesOfOthers(ctx, client, ref)...)
		}
		if ref.Name == addon.LoginName && ref.Kind == "Deployment" || ref == loginRef() {
			cost.Holds = append(cost.Holds, namesMayChange())
		}
		if isProvider(ref) {
			cost.Holds = append(cost.Holds, converge.Loss{Text: "Rancher's users who came by the login, with their keys and memberships"})
		}
		if ref.Kind != "PersistentVolumeClaim" || r.Keep {
			continue
		}
		if what, lost := w.Claim(ref.Namespace, ref.Name); lost && !slices.Contains(cost.Holds, what) {
			cost.Holds = append(cost.Holds, what)
		}
	}
	if r.Namespace != "" {
		cost.Users = w.Notebooks(r.Namespace)
	}
	return []converge.Cost{cost}
}

// bundlesOfOthers are the bundles of no part, which Fleet deletes with the GitRepo.
func bundlesOfOthers(ctx context.Context, client *kube.Client, repo kube.Ref) (out []converge.Loss) {
	state, err := fleet.Observe(ctx, client, fleet.StatusOptions{Name: repo.Name, Namespace: repo.Namespace})
	if err != nil {
		return UnknownLoss(err)
	}
	for _, b := range state.Bundles {
		if b.Part == "" {
			out = append(out, converge.Loss{Text: "bundle " + b.Name + ", which homelab did not write"})
		}
	}
	return slices.Compact(out)
}

// loginRef is what records which provider says who people are.
func loginRef() kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: addon.ProviderRecord}
}

// namesMayChange is what people lose with the login that has named them.
func namesMayChange() converge.Loss {
	return converge.Loss{Text: "all sign-ins; whom the next login calls by another name is a new user of the hub, with an empty home"}
}

// costsOfProvider are those of another provider, or of another claim with people's names.
func costsOfProvider(d converge.Diff) []converge.Cost {
	for _, f := range d {
		key, is := strings.CutPrefix(f.Path, "configmap/kube-system/"+addon.ProviderRecord+"/data.")
		if is && f.Effect == converge.Update && (key == "issuer" || key == "name-claim") {
			return []converge.Cost{{Machine: addon.ProviderName, Object: SortPart, Kind: converge.CostDestroy, Reason: "another one says who people are", Holds: []converge.Loss{namesMayChange()}}}
		}
	}
	return nil
}

// costsOfPush are the bundles that a push removes from Git: Fleet and Flux delete what they have
// deployed from them.
func costsOfPush(_ context.Context, _ *fleet.Repo, d converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, f := range d {
		for _, tool := range fleet.Tools() {
			if !tool.Uninstalls() || f.Effect != converge.Remove || path.Base(f.Path) != tool.BundleFile() {
				continue
			}
			out = append(out, converge.Cost{
				Machine: path.Dir(f.Path), Kind: converge.CostDestroy, Reason: "it is no longer in Git, so " + tool.Title() + " deletes it",
				Holds: []converge.Loss{{Text: "volumes that its chart does not keep"}},
			})
		}
	}
	return out
}
