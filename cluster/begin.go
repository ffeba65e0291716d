package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
)

// beginStep is what has to hold before anything changes: hostStep, or, where nothing is
// made on a Proxmox host, that the files are there which nodes get.
func (c *Cluster) beginStep() converge.Step {
	if c.Proxmox != nil {
		return c.hostStep()
	}
	return &converge.Resource[struct{}]{
		ID: "artifacts",
		Observe: func(context.Context) (struct{}, error) {
			return struct{}{}, converge.Permanent(artifacts.Check(c.spec))
		},
		Diff: func(struct{}) drift.Diff { return nil },
	}
}
