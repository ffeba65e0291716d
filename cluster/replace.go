package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

// NodeReplace recreates a node's machine: it drains the node, deletes it from Kubernetes and
// thereby from etcd, destroys its VM with its disks, clones the VM from the template and lets
// it join again. On an external machine it removes only K3s with its data, and installs it
// again. You can interrupt it anywhere and repeat it, or run Up, which makes what is missing.
// But Up refuses a server that etcd has removed and whose disk still exists. The machine is
// switched off before its Node is deleted, so that the server which created the cluster does
// not create another one. The exception is a server that the others need for their quorum.
//
// Without force it refuses to destroy data, or a server that the others need.
func (c *Cluster) NodeReplace(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	f := c.site.flow()
	return run.Retry(ctx, f.spec, func(ctx context.Context) (*converge.Graph, error) { return f.nodeReplaceGraph(ctx, name, force) })
}

func (c *machines) nodeReplaceGraph(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	n, err := c.nodeNamed(name)
	if err != nil {
		return nil, err
	}
	if n.External {
		return c.externalReplace(ctx, n, force)
	}
	if n.Adopt {
		return nil, &RefusedError{name, "homelab did not create its machine (adopt: true) and cannot restore its contents: to replace it anyway, first remove adopt from the file"}
	}
	return c.source().replace(ctx, n, force)
}

// oldMachine is the machine of a node that is recreated. The zero value: there is none.
type oldMachine struct {
	exists, running bool
	data            []string // on it, which nothing recreates
	switchOff       func(context.Context) error
}

func (c onProxmox) oldVM(n spec.Node, vm *proxmox.VM) oldMachine {
	if vm == nil {
		return oldMachine{}
	}
	return oldMachine{true, vm.Running, dataOf(n, vm), func(ctx context.Context) error { return c.switchOff(ctx, n, vm) }}
}

func (c onProxmox) replace(ctx context.Context, n spec.Node, force bool) (*converge.Graph, error) {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return nil, err
	}
	old := c.oldVM(n, vm)
	if err := c.checkMayDestroy(ctx, n, old, force); err != nil {
		return nil, err
	}
	if err := c.protectedError(vm); err != nil {
		return nil, &RefusedError{n.Name, err.Error()}
	}
	if err := c.checkNameFree(ctx, n); err != nil {
		return nil, err
	}
	if err := c.cardsFree(ctx, n); err != nil {
		return nil, err
	}
	g := c.members.Graph()
	host := g.Add(c.hostStep())
	template := host
	if n.FromTemplate() {
		template = g.Add(c.templates.Step(n.Host, n.Name), host) // before anything is destroyed
	}
	gone := g.Add(c.retireStep(n, old), template)
	if vm != nil {
		gone = g.Add(c.destroyOldStep(n, vm), gone)
	}
	_, booted := c.machines.machine(g, n, ground{begin: []*converge.Ref{host}, free: gone, template: template, again: true})
	c.joinAgain(g, n, booted)
	return g, nil
}

// checkMayDestroy refuses to destroy anything of value unless force is set.
func (c *machines) checkMayDestroy(ctx context.Context, n spec.Node, old oldMachine, force bool) error {
	if force {
		return nil
	}
	if len(old.data) > 0 {
		return &RefusedError{n.Name, "what is on " + strings.Join(old.data, ", ") + " would be destroyed with its machine: copy it elsewhere, then add -force"}
	}
	if n.Role != spec.Server {
		return nil
	}
	if len(c.spec.Servers()) == 1 {
		return &RefusedError{n.Name, "it is the only server, and the cluster with all its data would be lost: " +
			"save etcd (k3s etcd-snapshot save) and what you need, then add -force; afterwards replace the other nodes"}
	}
	if err := c.members.CheckRanges(ctx, n); err != nil {
		return &RefusedError{n.Name, err.Error()}
	}
	all, err := c.kubeNodes(ctx)
	if errors.Is(err, members.ErrUnformed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot check whether the other servers can do without %s (-force skips the check): %w", n.Name, err)
	}
	return quorumWithout(n.Name, all, true)
}

// checkNameFree refuses to replace a node if another VM has its name, perhaps a copy: the
// new VM could not be created after the old one is destroyed.
func (c onProxmox) checkNameFree(ctx context.Context, n spec.Node) error {
	other, err := c.Proxmox.VMs.GetForeign(ctx, names.Tag(c.spec), n.Name)
	switch {
	case err != nil:
		return &RefusedError{n.Name, err.Error()}
	case other != nil:
		return &RefusedError{n.Name, fmt.Sprintf("%s has its name, but does not belong to this cluster: rename it first (qm set %d --name …)", other, other.VMID)}
	}
	return nil
}

// dataOf lists the data of a machine that nothing recreates: disks that the file marks as
// data or does not name, and volumes that were detached and kept.
func dataOf(n spec.Node, vm *proxmox.VM) []string {
	var out []string
	for _, have := range vm.DoomedDisks() {
		named := slices.IndexFunc(n.Disks, func(d spec.Disk) bool { return d.Name == have.Serial })
		if named < 0 || n.Disks[named].Role == spec.RoleData {
			out = append(out, diskWords(have))
		}
	}
	for _, volume := range vm.Unused {
		out = append(out, "the unused disk "+volume)
	}
	return out
}

// retireStep drains a node and deletes it from Kubernetes. K3s then removes the etcd member
// and forgets the node's password.
func (c *machines) retireStep(n spec.Node, old oldMachine) *converge.Resource[*kube.Node] {
	note := "drained first; its password is removed with it"
	if n.Role == spec.Server {
		note = "drained first; its password and its etcd member are removed with it"
	}
	return &converge.Resource[*kube.Node]{
		ID: "retire/" + n.Name,
		Observe: func(ctx context.Context) (*kube.Node, error) {
			have, err := c.members.ObserveNode(ctx, n.Name)
			if errors.Is(err, members.ErrUnformed) {
				return nil, nil
			}
			return have, err
		},
		Diff: func(have *kube.Node) converge.Diff {
			if have == nil {
				return nil
			}
			return converge.Diff{{Path: "node", Have: "of the old machine", Effect: converge.Remove, Note: note}}
		},
		Costs: c.costsOfRetiring(n, old),
		Apply: func(ctx context.Context, have *kube.Node) error {
			if n.External {
				return c.uninstall(ctx, n)
			}
			if old.running { // without a machine, an evicted pod never ends
				if _, err := c.members.DrainFor(ctx, n.Name); err != nil {
					return err
				}
			}
			if old.exists && (n.Role == spec.Agent || c.quorumWithout(ctx, n)) {
				if err := old.switchOff(ctx); err != nil {
					return err
				}
			}
			return c.members.DeleteNode(ctx, n.Name)
		},
		Once: true, // a machine that still exists may register again
	}
}

// quorumWithout reports whether the other servers have a quorum while this one is off and etcd still
// counts it. If not, etcd must remove the member while it runs.
func (c *site) quorumWithout(ctx context.Context, n spec.Node) bool {
	all, err := c.kubeNodes(ctx)
	return err == nil && quorumWithout(n.Name, all, false) == nil
}

// switchOff switches a machine off, so that an interrupted run does not leave it running
// without its Node. A running agent would not register again. A server that etcd has removed
// while it ran creates a cluster of its own at its next start, if it was the first server.
func (c onProxmox) switchOff(ctx context.Context, n spec.Node, vm *proxmox.VM) error {
	now, err := c.Proxmox.VMs.WaitIdle(ctx, vm)
	if err != nil || now == nil || !now.Running {
		return err
	}
	if err := c.Proxmox.VMs.Shutdown(ctx, now); err != nil || n.Role == spec.Agent {
		return err
	}
	c.members.SetClient(nil, "") // connections may be to this machine
	return c.members.APIBack(ctx, members.APITime)
}

// destroyOldStep destroys the machine that existed when the command started, not a machine
// that has replaced it since.
func (c onProxmox) destroyOldStep(n spec.Node, old *proxmox.VM) *converge.Resource[*proxmox.VM] {
	return &converge.Resource[*proxmox.VM]{
		ID: "destroy/" + n.Name,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			have, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
			if err == nil && have != nil && have.Identity() != old.Identity() {
				return nil, nil
			}
			return have, err
		},
		Diff: func(have *proxmox.VM) converge.Diff {
			if have == nil {
				return nil
			}
			return converge.DiffUnwanted(fmt.Sprintf("%s, with its disks", have))
		},
		Costs: c.costsOfMachine(n.Name, "its machine is recreated"),
		Apply: func(ctx context.Context, have *proxmox.VM) error {
			if err := c.seeds.DestroyVM(ctx, have); err != nil {
				return err
			}
			return c.members.MachineGone(ctx, n)
		},
	}
}

// costsOfRetiring is the cost of deleting a node from Kubernetes. The step that destroys its
// machine lists the data on it.
func (c *machines) costsOfRetiring(n spec.Node, old oldMachine) func(context.Context, *kube.Node, converge.Diff) []converge.Cost {
	return func(ctx context.Context, _ *kube.Node, _ converge.Diff) []converge.Cost {
		switch {
		case n.External:
			return []converge.Cost{c.uninstallCost(ctx, n)}
		case !old.exists:
			return nil // nothing runs there
		}
		return c.members.Stops(ctx, "drained and removed from Kubernetes", n.Name)
	}
}
