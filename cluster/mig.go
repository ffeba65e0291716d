package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// migStep divides a node's GPUs as in the file, before K3s starts there and a device plugin
// counts them. Nodes that are to divide none have no such step: their driver's step sees to
// that.
func (c *machines) migStep(n spec.Node) *converge.Resource[mig.State] {
	want := offer.Layouts(n)
	step := &converge.Resource[mig.State]{
		ID:      "mig/" + n.Name,
		Observe: func(ctx context.Context) (mig.State, error) { return mig.Observe(ctx, c.nodes.Root(n.Name)) },
		Diff:    func(s mig.State) converge.Diff { return s.Diff(want) },
		Costs: func(ctx context.Context, s mig.State, _ converge.Diff) []converge.Cost {
			if s.DiffGPUs(want).Empty() {
				return nil // only what the next boot does changes
			}
			return c.costsOfDividing(ctx, n)
		},
		Apply: func(ctx context.Context, s mig.State) error {
			if s.DiffGPUs(want).Empty() {
				return permanentLayoutError(mig.Install(ctx, c.nodes.Root(n.Name), want))
			}
			return c.divide(ctx, n, want)
		},
		Settle: driverTime,
		Poll:   driverPoll,
		Hint:   "journalctl -u homelab-mig on " + n.Name + " says what nvidia-smi answered",
	}
	if n.External {
		step.Diff = func(s mig.State) converge.Diff { return ownerDivides(s.DiffGPUs(want)) }
		step.Costs, step.Apply = nil, nil
		step.Hint = "nvidia-smi -i 0 -mig 1 switches a GPU's MIG mode on, and nvidia-smi mig -i 0 -cgi 3g.20gb,3g.20gb -C divides it"
	}
	return step
}

// dividable says why none of a node's cards can be divided as one of its layouts asks. Which card
// has which number in the machine is not known before it runs.
func dividable(n spec.Node, cards []pci.GPU) error {
	if n.GPUs.Sharing.Strategy != spec.SharingMIG || len(cards) == 0 {
		return nil
	}
	var kinds []nvidia.GPU
	for _, card := range cards {
		id, err := nvidia.ParsePCIID(card.ID())
		if err != nil {
			return nil // not NVIDIA's
		}
		if kind, known := nvidia.Lookup(id); known {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) < len(cards) {
		return nil // the driver knows
	}
	for _, l := range n.GPUs.Sharing.Layouts {
		if sure, err := mig.CheckFitAny(kinds, l.Profiles); sure && err != nil {
			return fmt.Errorf("the GPUs of %s cannot be divided into %s: %w", n.Name, l, err)
		}
	}
	return nil
}

// ownerDivides says that the owner of an external machine divides its GPUs.
func ownerDivides(d converge.Diff) converge.Diff {
	for i := range d {
		d[i].Effect, d[i].Note = converge.Create, "the machine is external: divide its GPUs there, and at its every boot"
	}
	return d
}

// permanentLayoutError marks a layout that does not fit as permanent: it fits no better later.
func permanentLayoutError(err error) error {
	var no *mig.LayoutError
	if errors.As(err, &no) {
		return converge.Permanent(err)
	}
	return err
}

// costsOfDividing is the cost of dividing the GPUs of a joined node in another way.
func (c *machines) costsOfDividing(ctx context.Context, n spec.Node) []converge.Cost {
	if c.members.IsBare(ctx, n) {
		return nil
	}
	return c.members.Upgrades(ctx, "its GPUs are divided in another way", n)
}

// dividedGPUs says which GPUs of a node are divided although the file wants them whole.
func dividedGPUs(n spec.Node, s nvidia.DriverState) converge.Diff {
	var d converge.Diff
	if len(offer.Layouts(n)) > 0 {
		return nil // migStep
	}
	for _, g := range s.GPUs() {
		if g.MIG || g.MIGPending {
			d = append(d, converge.Field{
				Path: fmt.Sprintf("GPU %d", g.Index), Have: fmt.Sprintf("in MIG mode, with %d instances", len(g.Instances)),
				Want: "whole", Effect: converge.Restart,
			})
		}
	}
	return d
}

// divide divides a node's GPUs as wanted. On a node that has joined, pods and programs that
// watch the GPUs hold them, so it is drained, switched off and on, as for a driver: at its boot
// the service divides the GPUs before anything uses them. That also resets the cards, which
// Ampere's MIG mode needs. Until the node goes down for it, nothing is installed there: the next
// boot would divide them.
func (c *machines) divide(ctx context.Context, n spec.Node, want []mig.Layout) error {
	root := c.nodes.Root(n.Name)
	s, err := mig.Observe(ctx, root)
	if err == nil {
		err = s.Check(want)
	}
	if err != nil {
		return permanentLayoutError(err)
	}
	converge.Progressf(ctx, "dividing the GPUs of %s", n.Name)
	if err := c.redivide(ctx, n, want); err != nil {
		return err
	}
	for _, l := range want {
		if len(l.Profiles) > 0 {
			return nil
		}
	}
	return mig.Remove(ctx, root)
}

func (c *machines) redivide(ctx context.Context, n spec.Node, want []mig.Layout) error {
	root := c.nodes.Root(n.Name)
	if c.joined(ctx, n) {
		return c.members.Upgrade(ctx, n, "its GPUs as they are divided", func(ctx context.Context) error {
			if err := mig.Install(ctx, root, want); err != nil {
				return err
			}
			if err := c.members.Reshare(ctx, n); err != nil {
				return err
			}
			if err := mig.Switch(ctx, root); err != nil {
				return err
			}
			return c.cycleDivided(ctx, n, want)
		})
	}
	if err := mig.Install(ctx, root, want); err != nil {
		return err
	}
	if err := mig.Divide(ctx, root); err != nil {
		return err
	}
	s, err := mig.Observe(ctx, root)
	if err != nil || s.DiffGPUs(want).Empty() {
		return err
	}
	return c.cycleDivided(ctx, n, want)
}

// cycleDivided switches a node off and on, and waits until its GPUs are divided as wanted.
func (c *machines) cycleDivided(ctx context.Context, n spec.Node, want []mig.Layout) error {
	if err := c.restart(ctx, n); err != nil {
		return err
	}
	if err := c.nodes.WaitBooted(ctx, n); err != nil {
		return err
	}
	rule := converge.WaitRule{
		What: "waiting for the GPUs of " + n.Name, Limit: driverTime, Poll: driverPoll,
		TimeoutText: "the GPUs of " + n.Name + " are not divided as in the file",
		Hint: "journalctl -u homelab-mig there says what nvidia-smi answered; " +
			"a MIG mode that stays pending wants the card reset, which stopping the VM does if the host can reset it",
	}
	return run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		s, err := mig.Observe(ctx, c.nodes.Root(n.Name))
		if err != nil {
			return "", err
		}
		why := s.DiffGPUs(want).String()
		if why != "" && len(s.Messages) > 0 {
			why += "; " + strings.Join(s.Messages, "; ")
		}
		return why, nil
	})
}
