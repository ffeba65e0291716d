package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia"
)

// driverSeen is a node's driver, and the driver that it should have.
type driverSeen struct {
	nvidia.DriverState
	want nvidia.Recipe
}

// driverStep checks that the driver has brought up all of a node's GPUs, and that the container
// toolkit is installed, before K3s starts and looks for it. It installs what the template does
// not contain.
func (c *Cluster) driverStep(n spec.Node) *converge.Resource[driverSeen] {
	if n.External {
		return c.externalDriverStep(n)
	}
	return &converge.Resource[driverSeen]{
		ID: "driver/" + n.Name,
		Observe: func(ctx context.Context) (driverSeen, error) {
			seen, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
			if err != nil {
				return driverSeen{}, err
			}
			want, err := c.templates.Driver(ctx, n, seen)
			if err == nil {
				err = c.mayBuild(ctx, n, want)
			}
			return driverSeen{seen, want}, err
		},
		Diff: func(s driverSeen) drift.Diff {
			d := append(s.want.Diff(s.DriverState), nvidia.Toolkit{}.Diff(s.DriverState)...)
			if s.Loaded != "" {
				d = append(d, nvidia.DiffGPUs(s.DriverState, n.GPUs.Count)...)
			}
			return append(d, stillDivided(n, s.DriverState)...)
		},
		Costs: c.costsOfDriver(n),
		Apply: func(ctx context.Context, s driverSeen) error {
			if err := c.upgradeDriver(ctx, n, s); err != nil || stillDivided(n, s.DriverState).Empty() {
				return err
			}
			return c.divide(ctx, n, offer.Whole(n))
		},
		Settle: driverTime,
		Poll:   driverPoll,
	}
}

// mayBuild refuses to build modules on a node whose firmware does not load them. That concerns
// VMs and templates that another owner has made; for machines of ours, the file is refused.
func (c *Cluster) mayBuild(ctx context.Context, n spec.Node, want nvidia.Recipe) error {
	if !want.Build {
		return nil
	}
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), n.Name)
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
