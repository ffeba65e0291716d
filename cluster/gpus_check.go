package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/internal/serving"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// checkCards returns every problem with the nodes' cards, before anything is made: cards that
// are promised twice, and cards that do not exist.
func (c *cards) checkCards(ctx context.Context, host string) error {
	if !slices.ContainsFunc(c.spec.GPUMachines(), func(n spec.Node) bool { return n.Host == host }) {
		return nil
	}
	a, err := c.allot(ctx, host)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range c.spec.GPUMachines() {
		// The step of a node that has its cards reports its problems; they block no other node.
		if n.Host == host && len(n.GPUs.Mapping) == 0 && placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name)) == nil {
			errs = append(errs, a.Shares[n.Name].Err, dividable(n, a.Shares[n.Name].Cards))
			if a.Shares[n.Name].Err == nil && n.Role != spec.PlainVM {
				errs = append(errs, c.checkDriver(ctx, n))
			}
		}
	}
	return errors.Join(append(errs, c.checkModels(host, a))...)
}

// checkModels says which models fit on no card, as soon as those are known that the file only counts.
func (c *cards) checkModels(host string, a *placement.Allotment) error {
	nodes := slices.Clone(c.spec.Nodes)
	for i, n := range nodes {
		if all := a.Shares[n.Name].Cards; n.Host == host && len(all) > 0 && !slices.ContainsFunc(all, func(g pci.GPU) bool { return g.Model != all[0].Model }) {
			nodes[i].GPUs.Model = all[0].Model
		}
	}
	var errs []error
	for _, m := range c.spec.Platform.Models {
		places := serving.Places(nodes, m)
		if len(places) > 0 && len(serving.Targets(places)) == 0 {
			what, cure := serving.Largest(places).Refusal(m)
			errs = append(errs, fmt.Errorf("%s\n  %s", what, cure))
		}
	}
	return errors.Join(errs...)
}

// checkDriver says why no driver supports all cards of a node.
func (c *cards) checkDriver(ctx context.Context, n spec.Node) error {
	_, err := c.templates.Driver(ctx, n, nvidia.DriverState{})
	var no *nvidia.BranchError
	if errors.As(err, &no) {
		return fmt.Errorf("no NVIDIA driver fits the cards of %s: %s\n  %s", n.Name, no.Reason, no.Do)
	}
	return err
}
