package templates

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
)

// Templates bakes, finds and removes the templates of a cluster. It is safe for concurrent
// use.
type Templates struct {
	Spec    *spec.Spec
	Proxmox *proxmox.Client // nil where every machine is external
	Seeds   *firstboot.Maker
	// Distribution is the Kubernetes that templates have, if it has files.
	Distribution distribution.Files
	// Toolkit is NVIDIA's container toolkit of templates with a driver.
	Toolkit nvidia.Toolkit
	// Allot returns which cards of a host its nodes get.
	Allot func(ctx context.Context, host string) (*placement.Allotment, error)
}
