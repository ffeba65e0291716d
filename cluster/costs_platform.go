package cluster

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

// What changes of the platform cost, and those that only verbs make. Releases that
// change are rolled over by Kubernetes, and cost nothing that is not here.

// notLooked replaces the list of lost data for a part that could not be checked.
const notLooked = "cannot find out which data goes with it: "

// costsOfChart is what a changed release destroys: the parts that it replaces, and claims
// that it no longer has.
func (c *Cluster) costsOfChart(ctx context.Context, seen chartSeen, d drift.Diff) []converge.Cost {
	out := c.costsOfClaims(ctx, d)
	for _, name := range seen.part.Replaces {
		client, err := c.kube(ctx)
		var old *record
		if err == nil {
			old, err = c.recorded(ctx, client, name)
		}
		switch why := seen.part.Name + " replaces it"; {
		case err != nil:
			out = append(out, converge.Cost{Machine: name, Kind: converge.Destroys, Why: why, Holds: []string{notLooked + printable.FirstLine(err.Error())}})
		case old != nil:
			out = append(out, c.retires(ctx, client, *old, why)...)
		}
	}
	return out
}

// costsOfClaims are the claims among what a part had from an earlier file. The data of a
// volume that is kept without its claim is not lost.
func (c *Cluster) costsOfClaims(ctx context.Context, d drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, f := range d {
		name, ok := strings.CutPrefix(f.Path, "persistentvolumeclaim/")
		if !ok || f.Effect != drift.Remove {
			continue
		}
		cost := converge.Cost{Machine: name, Kind: converge.Destroys, Why: "a claim that is no longer in the file"}
		namespace, claim, _ := strings.Cut(name, "/")
		w, err := c.work(ctx)
		if err != nil || w == nil {
			out = append(out, cost)
			continue
		}
		if what, lost := w.Claim(namespace, claim); lost {
			cost.Holds = []string{what}
			out = append(out, cost)
		}
	}
	return out
}

// costsOfLeftovers are the parts that the file no longer names. ISOs, mappings and
// templates of earlier files hold no data.
func (c *Cluster) costsOfLeftovers(ctx context.Context, u unneeded, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range u.parts {
		if _, held := u.held[r.Part]; held {
			continue
		}
		client, err := c.kube(ctx)
		if errors.Is(err, errUnformed) { // nor can it be removed
			continue
		}
		if err != nil {
			out = append(out, converge.Cost{
				Machine: r.Part, Kind: converge.Destroys, Why: "no longer in the file", Holds: []string{notLooked + printable.FirstLine(err.Error())},
			})
			continue
		}
		out = append(out, c.retires(ctx, client, r, "no longer in the file")...)
	}
	return out
}

// retires is the cost of removing a part from the cluster; none if it must stay.
func (c *Cluster) retires(ctx context.Context, client *kube.Client, r record, why string) []converge.Cost {
	if errors.As(unused(ctx, client, r), new(inUse)) {
		return nil
	}
	cost := converge.Cost{Machine: r.Part, Kind: converge.Destroys, Why: why}
	w, err := c.work(ctx)
	if err != nil || w == nil {
		cost.Holds = []string{notLooked + "its API does not answer"}
		if err != nil {
			cost.Holds = []string{notLooked + printable.FirstLine(err.Error())}
		}
		return []converge.Cost{cost}
	}
	cost.Holds = w.ClaimsOf(r.Namespace, r.Release)
	for _, ref := range slices.Concat(r.After, r.Before) {
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

// costsOfPush are the bundles that a push removes from Git: Fleet deletes what it has
// deployed from them.
func costsOfPush(_ context.Context, _ *fleet.Repo, d drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, f := range d {
		if f.Effect == drift.Remove && path.Base(f.Path) == "fleet.yaml" {
			out = append(out, converge.Cost{
				Machine: path.Dir(f.Path), Kind: converge.Destroys, Why: "it is no longer in Git, so Fleet deletes it",
				Holds: []string{"volumes that its chart does not keep"},
			})
		}
	}
	return out
}

// costsOfRests are the templates that go with a cluster: the next one bakes its own.
func costsOfRests(_ context.Context, all []rest, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range all {
		for _, t := range r.templates {
			out = append(out, converge.Cost{Machine: t.Name, Kind: converge.Destroys, Why: "a template; another one is baked when needed"})
		}
	}
	return out
}

// costsOfFiles are files that nobody needs, for who has asked for nothing else.
func costsOfFiles(_ context.Context, all []rest, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range all {
		for _, v := range r.volumes {
			out = append(out, converge.Cost{Machine: v.Name(), Kind: converge.Destroys, Why: "nothing on this Proxmox needs it"})
		}
	}
	return out
}

// costsOfMachine is what goes with one machine.
func (c *Cluster) costsOfMachine(name, why string) func(context.Context, *proxmox.VM, drift.Diff) []converge.Cost {
	return func(ctx context.Context, vm *proxmox.VM, _ drift.Diff) []converge.Cost {
		return []converge.Cost{c.destroys(ctx, name, why, vm, nil)}
	}
}

// costsOfTemplate is what goes with a template that nothing hangs on.
func costsOfTemplate(_ context.Context, vm *proxmox.VM, _ drift.Diff) []converge.Cost {
	return []converge.Cost{{Machine: vm.Name, Kind: converge.Destroys, Why: "a template that no VM uses"}}
}

// costsOfRelease is what is lost with K3s on an external machine.
func (c *Cluster) costsOfRelease(n spec.Node) func(context.Context, k3s.State, drift.Diff) []converge.Cost {
	return func(ctx context.Context, _ k3s.State, _ drift.Diff) []converge.Cost {
		return []converge.Cost{c.uninstallCost(ctx, n)}
	}
}

func (c *Cluster) uninstallCost(ctx context.Context, n spec.Node) converge.Cost {
	return c.destroys(ctx, n.Name, "K3s is removed with its data; the machine itself stays", nil, nil)
}

// costsOfDrain is the work that ends when a node is emptied.
func (c *Cluster) costsOfDrain(n spec.Node) func(context.Context, drained, drift.Diff) []converge.Cost {
	return func(ctx context.Context, have drained, _ drift.Diff) []converge.Cost {
		if have.pods == 0 {
			return nil
		}
		users := c.users(ctx, func(w *consent.Work) []string { return w.Ends(n.Name) })
		if len(users) == 0 {
			return nil // what is there is made again elsewhere
		}
		return []converge.Cost{{
			Machine: "work on " + n.Name, Kind: converge.Stops, Why: "drained: no pods are scheduled until it is uncordoned", Users: users,
		}}
	}
}

// costsOfRetiring is what a node's going out of Kubernetes costs. What its machine holds is
// said where that is destroyed.
func (c *Cluster) costsOfRetiring(n spec.Node, vm *proxmox.VM) func(context.Context, *kube.Node, drift.Diff) []converge.Cost {
	return func(ctx context.Context, _ *kube.Node, _ drift.Diff) []converge.Cost {
		switch {
		case n.External:
			return []converge.Cost{c.uninstallCost(ctx, n)}
		case vm == nil:
			return nil // nothing runs there
		}
		return c.stops(ctx, "drained and removed from Kubernetes", n.Name)
	}
}

// costsOfCycle is what it costs to switch a node off and on.
func (c *Cluster) costsOfCycle(n spec.Node) func(context.Context, bool, drift.Diff) []converge.Cost {
	return func(ctx context.Context, _ bool, _ drift.Diff) []converge.Cost {
		return c.stops(ctx, "drained, stopped and started", n.Name)
	}
}
