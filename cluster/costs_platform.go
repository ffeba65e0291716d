package cluster

import (
	"context"
	"errors"
	"strconv"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

// The costs of changes to the platform, and of changes that only verbs make. Kubernetes rolls
// out changed releases, which costs nothing beyond what is listed here.

// costsOfLeftovers are the parts that the file no longer names. ISOs, mappings and
// templates of earlier files hold no data.
func (c *Cluster) costsOfLeftovers(ctx context.Context, u unneeded, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range u.parts {
		if _, held := u.held[r.Part]; held {
			continue
		}
		client, err := c.members.Kube(ctx)
		if errors.Is(err, members.ErrUnformed) { // without a cluster, nothing can be removed either
			continue
		}
		if err != nil {
			out = append(out, converge.Cost{
				Machine: r.Part, Sort: parts.SortPart, Kind: converge.Destroys, Why: "no longer in the file", Holds: parts.Unseen(err),
			})
			continue
		}
		out = append(out, c.parts.Retires(ctx, client, r, "no longer in the file")...)
	}
	return out
}

// costsOfRests are the templates that are removed with a cluster: the next one bakes its own.
func costsOfRests(_ context.Context, all []templates.Rest, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range all {
		for _, t := range r.Templates {
			out = append(out, converge.Cost{Machine: t.Name, Sort: "template", Thing: strconv.Itoa(t.VMID), Kind: converge.Destroys, Why: "a template; another one is baked when needed"})
		}
	}
	return out
}

// costsOfFiles are files that nothing needs, for a user who has asked only for their removal.
func costsOfFiles(_ context.Context, all []templates.Rest, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range all {
		for _, v := range r.Volumes {
			out = append(out, converge.Cost{Machine: v.Name(), Sort: "file", Thing: v.ID + " on " + r.Host, Kind: converge.Destroys, Why: "nothing on this Proxmox needs it"})
		}
	}
	return out
}

// costsOfMachine is what is lost with one machine.
func (c *Cluster) costsOfMachine(name, why string) func(context.Context, *proxmox.VM, drift.Diff) []converge.Cost {
	return func(ctx context.Context, vm *proxmox.VM, _ drift.Diff) []converge.Cost {
		return []converge.Cost{c.destroys(ctx, name, why, vm, nil)}
	}
}

// costsOfTemplate is what is lost with a template without linked clones.
func costsOfTemplate(_ context.Context, vm *proxmox.VM, _ drift.Diff) []converge.Cost {
	return []converge.Cost{{Machine: vm.Name, Sort: "template", Thing: vm.Identity(), Kind: converge.Destroys, Why: "a template that no VM uses"}}
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

// costsOfDrain is the work that ends when a node is drained.
func (c *Cluster) costsOfDrain(n spec.Node) func(context.Context, drained, drift.Diff) []converge.Cost {
	return func(ctx context.Context, have drained, _ drift.Diff) []converge.Cost {
		if have.pods == 0 {
			return nil
		}
		users := c.members.Users(ctx, func(w *consent.Work) []converge.Loss { return w.Ends(n.Name) })
		if len(users) == 0 {
			return nil // the pods there are recreated elsewhere
		}
		return []converge.Cost{{
			Machine: "work on " + n.Name, Kind: converge.Stops, Why: "drained: no pods are scheduled until it is uncordoned", Users: users,
		}}
	}
}

// costsOfRetiring is the cost of deleting a node from Kubernetes. The step that destroys its
// machine lists the data on it.
func (c *Cluster) costsOfRetiring(n spec.Node, vm *proxmox.VM) func(context.Context, *kube.Node, drift.Diff) []converge.Cost {
	return func(ctx context.Context, _ *kube.Node, _ drift.Diff) []converge.Cost {
		switch {
		case n.External:
			return []converge.Cost{c.uninstallCost(ctx, n)}
		case vm == nil:
			return nil // nothing runs there
		}
		return c.members.Stops(ctx, "drained and removed from Kubernetes", n.Name)
	}
}

// costsOfCycle is the cost of switching a node off and on.
func (c *Cluster) costsOfCycle(n spec.Node) func(context.Context, bool, drift.Diff) []converge.Cost {
	return func(ctx context.Context, _ bool, _ drift.Diff) []converge.Cost {
		return c.members.Stops(ctx, "drained, stopped and started", n.Name)
	}
}
