package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
)

// beginStep checks what must hold before anything changes: it is hostStep, or, if nothing is
// made on a Proxmox host, a check that the files for the nodes exist.
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
