package cluster

import (
	"github.com/cps-gpu/homelab/cluster/internal/k3snodes"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// distributionOn returns the Kubernetes of a file on machines as one run reaches them. This is the one place that
// knows which there are.
func distributionOn(s *spec.Spec, ns *nodes.Nodes) distribution.Distribution {
	return k3snodes.New(s, ns.Root)
}

func (c *site) distribution() distribution.Distribution { return distributionOn(c.spec, c.nodes) }
