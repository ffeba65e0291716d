// Package harvestervms has the steps that make a cluster's machines on Harvester, and remove them.
package harvestervms

import (
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/harvester"
)

// VMs are the machines of one cluster on Harvester.
type VMs struct {
	Spec    *spec.Spec
	Client  *harvester.Client
	Seeds   *firstboot.Maker
	Nodes   *nodes.Nodes
	Members *members.Members
}
