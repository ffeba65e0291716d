package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/nvidia"
)

// driverState is a node's driver, and the driver that it should have.
type driverState struct {
	nvidia.DriverState
	want nvidia.Recipe
}

// driverStep checks that the driver has brought up all of a node's GPUs, and that the container
// toolkit is installed, before K3s starts and looks for it. It installs what the template does
// not contain.
func (c *machines) driverStep(n spec.Node) *converge.Resource[driverState] {
	if n.External {
		return c.externalDriverStep(n)
	}
	return &converge.Resource[driverState]{
		ID: "driver/" + n.Name,
		Observe: func(ctx context.Context) (driverState, error) {
			seen, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
			if err != nil {
				return driverState{}, err
			}
			want, err := c.source().driver(ctx, n, seen)
			return driverState{seen, want}, err
		},
		Diff: func(s driverState) converge.Diff {
			d := append(s.want.Diff(s.DriverState), nvidia.Toolkit{}.Diff(s.DriverState)...)
			if s.Loaded != "" {
				d = append(d, nvidia.DiffGPUs(s.DriverState, offer.GPUsOf(n).Cards)...)
			}
			return append(d, dividedGPUs(n, s.DriverState)...)
		},
		Costs: c.costsOfDriver(n),
		Apply: func(ctx context.Context, s driverState) error {
			if err := c.upgradeDriver(ctx, n, s); err != nil || dividedGPUs(n, s.DriverState).Empty() {
				return err
			}
			return c.divide(ctx, n, offer.UndividedLayouts(n))
		},
		Settle: driverTime,
		Poll:   driverPoll,
	}
}

// mayBuild refuses to build modules on a node whose firmware does not load them. That concerns
// VMs and templates that another owner has made; for machines of ours, the file is refused.
func (c onProxmox) mayBuild(ctx context.Context, n spec.Node, want nvidia.Recipe) error {
	if !want.Build {
		return nil
	}
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil || vm == nil || !vm.SecureBoot {
		return err
	}
	return converge.Permanent(errors.New(templates.SecureBootOn(vm.String())))
}

// The time that a driver may take to bring up its GPUs after boot, and the time between checks.
const (
	driverTime = 90 * time.Second
	driverPoll = 3 * time.Second
)

// costsOfDriver is the cost of another driver on a joined node: a restart loads it.
func (c *machines) costsOfDriver(n spec.Node) func(context.Context, driverState, converge.Diff) []converge.Cost {
	return func(ctx context.Context, s driverState, _ converge.Diff) []converge.Cost {
		if !s.upgrades() {
			if dividedGPUs(n, s.DriverState).Empty() {
				return nil
			}
			return c.costsOfDividing(ctx, n)
		}
		if c.members.IsBare(ctx, n) {
			return nil
		}
		if c.replaces(n) {
			return c.costsOfReplacing(ctx, n, s.restartReason())
		}
		return c.members.Upgrades(ctx, s.restartReason(), n)
	}
}

// replaces reports whether a node gets another driver or toolkit with another machine
// (nvidia.driver.upgrade). Servers, machines that homelab did not make, and machines with data
// get them in place.
func (c *machines) replaces(n spec.Node) bool {
	data := func(d spec.Disk) bool { return d.Role == spec.RoleData && d.Volume == "" }
	return c.spec.NVIDIA.DriverUpgrade == spec.DriverReplace && n.Role == spec.Agent && n.OnProxmox() && !n.Adopt && !slices.ContainsFunc(n.Disks, data)
}

// replaceForDriver recreates a node's machine in its turn, from the template of the file. What can
// refuse that does so while the node still works, and the template is baked before the node is drained.
func (c *machines) replaceForDriver(ctx context.Context, n spec.Node) error {
	// A run of its own: what it sees of the machine that goes says nothing about the one that comes.
	again, err := c.flow().nodeReplaceGraph(ctx, n.Name, false)
	if err == nil {
		err = c.bakeFirst(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("%s keeps its machine: %w", n.Name, err)
	}
	again.BeforeActing = nil // the run that this is a part of has checked it
	again.Approve = converge.ApproveFromContext(ctx)
	return c.withNextSteps(ctx, n, c.members.Upgrade(ctx, n, "its machine", func(ctx context.Context) error {
		_, err := again.Run(ctx, forwardEvents(ctx))
		return err
	}))
}

// bakeFirst bakes the template for a node that is recreated, once for all nodes of a host.
func (c *machines) bakeFirst(ctx context.Context, n spec.Node) error {
	select {
	case c.baking <- struct{}{}:
		defer func() { <-c.baking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	g := c.flow().members.Graph()
	g.Add(c.templates.Step(n.Host, n.Name))
	_, err := g.Run(ctx, forwardEvents(ctx))
	return err
}

// forwardEvents reports what the steps of a run within a step say as that step's progress.
func forwardEvents(ctx context.Context) func(converge.Event) {
	return func(e converge.Event) {
		switch {
		case e.Message != "":
			converge.Progressf(ctx, "%s: %s", e.Step, e.Message)
		case e.Kind == converge.Changed:
			converge.Progressf(ctx, "%s: done", e.Step)
		}
	}
}

// costsOfReplacing is the cost of another driver by another machine.
func (c *machines) costsOfReplacing(ctx context.Context, n spec.Node, why string) []converge.Cost {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	lost := c.destroys(ctx, n.Name, "", vm, err)
	costs := c.members.Upgrades(ctx, why+": its machine is recreated from the template of the file", n)
	for i := range costs {
		costs[i].Kind, costs[i].Holds = converge.CostDestroy, lost.Holds
	}
	return costs
}

// remaining is the part of a driver that is not installed yet, without packages on hold.
func (s driverState) remaining() converge.Diff {
	return slices.DeleteFunc(s.want.DiffPackages(s.DriverState), func(f converge.Field) bool { return strings.HasPrefix(f.Path, "hold/") })
}

// failed reports whether the driver was tried and did not load. If a driver is loaded, the
// messages in the kernel's log are from that one, not from another that is installed.
func (s driverState) failed() bool { return s.Loaded == "" && len(s.Log) > 0 }

// mayLoad reports whether a node may have to restart for its driver. Then the plan shows the
// cost; otherwise loadDriver restarts nothing.
func (s driverState) mayLoad() bool {
	missing := s.remaining()
	if s.Loaded != "" { // modules for another kernel than the running one are built without it
		missing = slices.DeleteFunc(missing, func(f converge.Field) bool { return strings.HasPrefix(f.Path, nvidia.ModulePath) })
	}
	if missing.Empty() {
		return !s.failed() && s.want.Diff(s.DriverState).Effect() == converge.Restart // otherwise a restart does not help
	}
	return true
}

// upgrades reports whether a node goes down for its driver or its toolkit.
func (s driverState) upgrades() bool { return s.mayLoad() || nvidia.Toolkit{}.Stale(s.DriverState) }

// upgradeDriver installs a node's driver and toolkit as wanted. A node that has joined goes down for
// that as for another version of K3s: one after the other, when no pod holds its GPUs or their time is
// over. Nothing is installed before: libraries of another version than the loaded module would end the
// work on its GPUs as surely. A node whose driver is not loaded runs no such work.
func (c *machines) upgradeDriver(ctx context.Context, n spec.Node, s driverState) error {
	root := c.nodes.Root(n.Name)
	install := func(ctx context.Context) error {
		if err := nvidia.InstallDriver(ctx, root, s.want); err != nil {
			return err
		}
		return nvidia.InstallToolkit(ctx, nodes.WithProxy(c.spec, root), c.toolkit())
	}
	if !s.upgrades() {
		return install(ctx)
	}
	if !c.joined(ctx, n) {
		if err := install(ctx); err != nil || !s.mayLoad() {
			return err
		}
		return c.loadDriver(ctx, n, s)
	}
	if c.replaces(n) {
		return c.replaceForDriver(ctx, n)
	}
	if err := nvidia.FetchDriver(ctx, root, s.want); err != nil {
		return fmt.Errorf("%s keeps its driver, and stays up: %w", n.Name, err)
	}
	keeps := "its driver"
	if s.Loaded == "" {
		keeps = ""
	}
	return c.withNextSteps(ctx, n, c.members.Upgrade(ctx, n, keeps, func(ctx context.Context) error {
		if err := install(ctx); err != nil {
			return err
		}
		converge.Progressf(ctx, "restarting %s with driver %s", n.Name, s.want)
		if err := c.restart(ctx, n); err != nil {
			return err
		}
		return c.waitDriver(ctx, n, s.want.Diff)
	}))
}

// joined reports whether Kubernetes has a node, or cannot say: a new machine has not joined.
func (c *site) joined(ctx context.Context, n spec.Node) bool {
	if c.nodes.Observation(n.Name).Absent.Load() {
		return false
	}
	was, err := c.members.ObserveNode(ctx, n.Name)
	return was != nil || err != nil && !errors.Is(err, members.ErrUnformed)
}

// withNextSteps adds to the failure of an upgrade how to go on, and how to go back.
func (c *machines) withNextSteps(ctx context.Context, n spec.Node, err error) error {
	var stays *members.StaysError
	if err == nil || ctx.Err() != nil || errors.As(err, &stays) {
		return err
	}
	return fmt.Errorf("%w\n  to go on: fix that, then run homelab cluster:up again: it goes on with %s, and no other node goes down before it is well"+
		"\n  to go back: write the earlier branch under nvidia.driver and run it again; homelab node:replace -node=%s recreates the machine with the driver of the file", err, n.Name, printable.Word(n.Name))
}

// loadDriver restarts a new node whose driver is installed but not loaded. That is the case if the
// driver was just installed, together with its kernel, or if an earlier run ended after
// installing it. A restart does not help if the kernel's log shows that the driver failed to
// load.
func (c *machines) loadDriver(ctx context.Context, n spec.Node, before driverState) error {
	now, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
	if err != nil {
		return err
	}
	// Modules of another mode may have the version that is loaded. Only a restart shows whether
	// they load.
	switched := slices.ContainsFunc(before.remaining(), func(f converge.Field) bool { return f.Path == nvidia.FieldMode })
	if !switched && before.want.Diff(now).Effect() != converge.Restart {
		return nil
	}
	converge.Progressf(ctx, "restarting %s to load the driver", n.Name)
	if err := c.restart(ctx, n); err != nil {
		return err
	}
	return c.nodes.WaitBooted(ctx, n)
}

// restart switches a node off and on: a restart from inside would not reset its cards.
func (c *machines) restart(ctx context.Context, n spec.Node) error { return c.source().restart(ctx, n) }

func (c onProxmox) restart(ctx context.Context, n spec.Node) error {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return err
	}
	if vm == nil {
		return fmt.Errorf("there is no VM %s", n.Name)
	}
	if err := c.Proxmox.VMs.Shutdown(ctx, vm); err != nil {
		return err
	}
	return c.Proxmox.VMs.Start(ctx, vm)
}

// waitDriver waits until a restarted node has all of its cards up, and its driver needs no
// further restart. The caller must have the turn: if a driver does not load anywhere, or a card
// does not come up, only one node fails.
func (c *machines) waitDriver(ctx context.Context, n spec.Node, wrong func(nvidia.DriverState) converge.Diff) error {
	if err := c.nodes.WaitBooted(ctx, n); err != nil {
		return err
	}
	rule := converge.WaitRule{What: "waiting for the GPUs of " + n.Name, Limit: driverTime, Poll: driverPoll,
		TimeoutText: "the GPUs of " + n.Name + " are not all ready"}
	return run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		s, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
		if err != nil {
			return "", err
		}
		if d := wrong(s); d.Effect() == converge.Restart {
			return d.String(), nil
		}
		return nvidia.DiffGPUs(s, offer.GPUsOf(n).Cards).String(), nil
	})
}

// withMoreCards gives a VM more cards by calling do, and waits until its driver has brought them up,
// if it has a working driver. If nobody can log in to the machine now, withMoreCards does not wait,
// because it cannot see the cards: the machine's own steps report that.
func (c *machines) withMoreCards(ctx context.Context, n spec.Node, do func() error) error {
	before, unseen := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
	if err := do(); err != nil || unseen != nil || len(before.GPUs()) == 0 {
		return err
	}
	return c.waitDriver(ctx, n, func(nvidia.DriverState) converge.Diff { return nil })
}

// restartReason say what a node goes down for.
func (s driverState) restartReason() string {
	if !s.mayLoad() {
		return (nvidia.Toolkit{}).String()
	}
	text := "NVIDIA's driver " + s.want.String() + " is loaded by a restart"
	if !s.want.Build && !s.remaining().Empty() {
		text += ", with the newest kernel of its series"
	}
	return text
}
