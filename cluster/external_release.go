package cluster

import (
	"context"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia"
)

// externalDriverStep waits for a driver that the owner of the machine must install.
func (c *machines) externalDriverStep(n spec.Node) *converge.Resource[driverState] {
	return &converge.Resource[driverState]{
		ID: "driver/" + n.Name,
		Observe: func(ctx context.Context) (driverState, error) {
			seen, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
			return driverState{DriverState: seen}, err
		},
		Diff: func(s driverState) converge.Diff {
			const note = "the machine is external: install it there"
			d := nvidia.DiffGPUs(s.DriverState, offer.GPUsOf(n).Cards)
			if s.Loaded == "" {
				d = converge.Diff{{Path: "driver", Have: "not loaded", Want: "a driver of NVIDIA's", Effect: converge.Create, Note: note}}
			}
			if s.Runtime == "" {
				d = append(d, converge.Field{Path: "toolkit", Have: "none", Want: "nvidia-container-runtime", Effect: converge.Create, Note: note})
			}
			for _, f := range dividedGPUs(n, s.DriverState) {
				f.Effect, f.Note = converge.Create, "the machine is external: switch the MIG mode off there, or write sharing: {strategy: mig, …}"
				d = append(d, f)
			}
			return d
		},
		Settle: 10 * time.Second,
	}
}

// releaseStep removes K3s from an external machine, which it does not destroy.
func (c *machines) releaseStep(n spec.Node) *converge.Resource[distribution.State] {
	return &converge.Resource[distribution.State]{
		ID: c.distribution().Facts().StepID(n.Name),
		Observe: func(ctx context.Context) (distribution.State, error) {
			have, err := c.ownInstallation(ctx, n)
			if members.IsForeign(err) {
				converge.Progressf(ctx, "left alone: %s", err)
				return distribution.State{}, nil
			}
			return have, err
		},
		Diff: func(have distribution.State) converge.Diff {
			if have.Cluster == "" && have.Role == "" {
				return nil
			}
			return converge.DiffUnwanted(c.distribution().Facts().Title + " on the external machine " + n.Name)
		},
		Costs: c.costsOfRelease(n),
		Apply: func(ctx context.Context, _ distribution.State) error {
			if _, err := c.ownInstallation(ctx, n); err != nil {
				return err
			}
			return c.distribution().Remove(ctx, n)
		},
		Settle: nodes.ExternalTime,
	}
}

// costsOfRelease is what is lost with K3s on an external machine.
func (c *machines) costsOfRelease(n spec.Node) func(context.Context, distribution.State, converge.Diff) []converge.Cost {
	return func(ctx context.Context, _ distribution.State, _ converge.Diff) []converge.Cost {
		return []converge.Cost{c.uninstallCost(ctx, n)}
	}
}

func (c *machines) uninstallCost(ctx context.Context, n spec.Node) converge.Cost {
	return c.destroys(ctx, n.Name, c.distribution().Facts().Title+" is removed with its data; the machine itself stays", nil, nil)
}
