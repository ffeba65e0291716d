package cluster

import (
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/chart"
)

func (r *recipe) standalone() []chart.Part { return nil }

// fleetSteps brings the parts that Fleet deploys.
func (c *Cluster) fleetSteps(*converge.Graph, []piece, ground, refs) {}
