package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
)

// NodeUpgrade upgrades the packages of a node's machine within the release of its distribution, with
// its kernel and the driver within its branch; without a name those of all nodes, one after the other,
// servers first. A node restarts if its packages ask for that. External machines are left to their
// owners.
func (c *Cluster) NodeUpgrade(name string) (*converge.Graph, error) {
	f := c.site.flow()
	nodes := append(f.spec.Servers(), f.spec.Agents()...)
	if name != "" {
		n, err := f.machineOf(name, "upgrade its packages")
		if err != nil {
			return nil, err
		}
		nodes = []spec.Node{n}
	}
	nodes = slices.DeleteFunc(nodes, func(n spec.Node) bool { return !n.OnProxmox() })
	if len(nodes) == 0 {
		return nil, &RefusedError{f.spec.Name, "none of its machines is a VM of Proxmox VE: upgrade them there"}
	}
	u := &systems{&f.machines}
	g := f.members.Graph()
	var servers []*converge.Ref
	for _, n := range nodes {
		needs := []*converge.Ref{g.Add(u.powerStep(n))}
		if n.Role == spec.Server {
			servers = append(servers, g.Add(u.upgradeStep(n), needs...))
		} else {
			g.Add(u.upgradeStep(n), append(needs, servers...)...)
		}
	}
	return g, nil
}

// systems are the operating systems of machines.
type systems struct{ *machines }

// powerStep switches a machine on, so that its packages can be seen. An upgrade that was killed may have
// left it off.
func (c *systems) powerStep(n spec.Node) *converge.Resource[*proxmox.VM] {
	return &converge.Resource[*proxmox.VM]{
		ID: "power/" + n.Name,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
			if err == nil && vm == nil {
				err = converge.Permanent(&RefusedError{n.Name, "it has no VM: homelab cluster:up creates it"})
			}
			return vm, err
		},
		Diff: func(vm *proxmox.VM) converge.Diff {
			if vm.Running {
				return nil
			}
			return converge.Diff{{Path: "power", Have: "off", Want: "on", Effect: converge.Create}}
		},
		Apply: func(ctx context.Context, vm *proxmox.VM) error {
			if err := c.Proxmox.VMs.Start(ctx, vm); err != nil {
				return err
			}
			return c.nodes.WaitBooted(ctx, n)
		},
	}
}

// packagesPoll is the time between two looks at a machine's packages, each of which reads the lists of
// its archive.
const packagesPoll = 30 * time.Second

// upgradeStep brings a machine's packages to the newest of its release.
func (c *systems) upgradeStep(n spec.Node) *converge.Resource[members.System] {
	return &converge.Resource[members.System]{
		ID: "packages/" + n.Name,
		Observe: func(ctx context.Context) (members.System, error) {
			return c.members.ObserveSystem(ctx, n, c.templates.Driver)
		},
		Diff:   members.System.Diff,
		Costs:  c.costsOfPackages(n),
		Apply:  func(ctx context.Context, s members.System) error { return c.upgradeSystem(ctx, n, s) },
		Settle: members.ReadyTime, Poll: packagesPoll,
		Hint: "if the machine starts an older kernel than the newest that is installed, its boot loader says so: GRUB_DEFAULT in /etc/default/grub there",
	}
}

// costsOfPackages is the cost of a node that is drained for its packages, and may restart.
func (c *systems) costsOfPackages(n spec.Node) func(context.Context, members.System, converge.Diff) []converge.Cost {
	return func(ctx context.Context, s members.System, _ converge.Diff) []converge.Cost {
		if !s.TakesDown() {
			return nil
		}
		return c.members.Upgrades(ctx, s.Reason(), n)
	}
}

// upgradeSystem upgrades a machine's packages: they are downloaded while the node works, installed when
// it is drained, and it restarts when its driver has modules for the kernel that starts.
func (c *systems) upgradeSystem(ctx context.Context, n spec.Node, s members.System) error {
	if !s.TakesDown() {
		if err := c.holdDriver(ctx, n, s); err != nil || s.Node == nil || !s.Node.Cordoned {
			return err
		}
		return c.members.Uncordon(ctx, n.Name)
	}
	root := nodes.WithProxy(c.spec, c.nodes.Root(n.Name))
	converge.Progressf(ctx, "downloading %d packages", len(s.Changes))
	if err := apt.Fetch(ctx, root, s.HeldTogether); err != nil {
		return fmt.Errorf("%s keeps its packages, and stays up: %w", n.Name, err)
	}
	err := c.members.UpgradeSystem(ctx, n, func(ctx context.Context) error {
		now, err := c.installUpgrade(ctx, n, s)
		switch {
		case err != nil && len(now.GPUs()) < len(s.GPUs()): // libraries of another version than the loaded driver
			return fmt.Errorf("%w\n  %s stays drained: its driver does not work before a restart", err, n.Name)
		case err != nil:
			return &members.StayedUp{Err: fmt.Errorf("%w\n  %s still runs kernel %s, and takes pods again; its next restart may start another one", err, n.Name, s.Kernel)}
		case !now.Restarts():
			return &members.StayedUp{}
		}
		converge.Progressf(ctx, "restarting %s with kernel %s", n.Name, now.NextKernel())
		if err := c.restart(ctx, n); err != nil {
			return err
		}
		if !now.Managed {
			return c.nodes.WaitBooted(ctx, n)
		}
		return c.waitDriver(ctx, n, now.Want.Diff)
	})
	var stays *members.StaysError
	if err == nil || ctx.Err() != nil || errors.As(err, &stays) {
		return err
	}
	return fmt.Errorf("%w\n  to go on: fix that, then run homelab node:upgrade again: it goes on with %s, and no other node goes down before it is well", err, n.Name)
}

// installUpgrade installs the packages, holds again what was held, and has modules built for the kernel
// that starts next.
func (c *systems) installUpgrade(ctx context.Context, n spec.Node, s members.System) (now members.System, err error) {
	root := nodes.WithProxy(c.spec, c.nodes.Root(n.Name))
	failed := apt.Run(ctx, root, s.HeldTogether)
	if failed != nil && s.Managed {
		failed = nvidia.WithBuildLog(ctx, root, failed)
	} else if failed == nil {
		failed = c.holdDriver(ctx, n, s)
	}
	now, err = c.members.ObserveSystem(ctx, n, c.templates.Driver)
	if err = cmp.Or(failed, err); err != nil || !now.Managed {
		return now, err
	}
	if kernel := now.Want.KernelWithoutModules(now.DriverState); kernel != "" {
		return now, fmt.Errorf("kernel %s has no modules of driver %s, so %s does not restart", kernel, now.Want, n.Name)
	}
	return now, nil
}

// holdDriver holds the driver's packages and those that bring kernels, and builds modules that are missing.
func (c *systems) holdDriver(ctx context.Context, n spec.Node, s members.System) error {
	if !s.Managed {
		return nil
	}
	return nvidia.InstallDriver(ctx, c.nodes.Root(n.Name), s.Want)
}
