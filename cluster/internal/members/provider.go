package members

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

// ProviderID is the ID under which Kubernetes knows a node for good: that of the configuration with
// which it was first started, and that of its VM if it has not been started yet. Empty: the distribution's own,
// such as k3s://NAME, as on external machines and in nodes that joined before homelab gave others.
func (ks *Kubernetes) ProviderID(ctx context.Context, n spec.Node, have distribution.State) (string, error) {
	if !n.OnProxmox() || have.Configured {
		return have.ProviderID, nil
	}
	vm, err := ks.Nodes.Proxmox.VMs.Get(ctx, names.Tag(ks.Spec), n.Name)
	switch {
	case err != nil:
		return "", fmt.Errorf("which VM is %s: %w", n.Name, err)
	case vm == nil:
		return "", fmt.Errorf("%s is not a VM of this cluster any longer, so it cannot join", n.Name)
	}
	return spec.ProviderID(ks.Spec.Proxmox.Region, vm.VMID), nil
}

// checkRegion returns an error if a node has an ID of another region than the file's: Kubernetes refuses
// another ID, and storage drivers take one region for one Proxmox cluster.
func (ks *Kubernetes) checkRegion(node, id string) error {
	region, ours := spec.RegionOf(id)
	if !ours || region == ks.Spec.Proxmox.Region {
		return nil
	}
	return fmt.Errorf("%s is %s in Kubernetes, which refuses another ID, and the file's region is %s: write proxmox.region: %s, or recreate the cluster (cluster:down, cluster:up)",
		node, id, ks.Spec.Proxmox.Region, region)
}

// checkMachines returns an error if the file wants storage.proxmox and a node has the ID of another machine than its
// own: the storage driver would attach volumes to that machine.
func (ks *Kubernetes) checkMachines(ctx context.Context, nodes []kube.Node) error {
	if ks.Spec.Platform.Storage.Proxmox == nil {
		return nil
	}
	vms, err := ks.Nodes.Proxmox.VMs.List(ctx, names.Tag(ks.Spec))
	if err != nil {
		return err
	}
	for _, n := range nodes {
		i := slices.IndexFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == n.Name })
		if _, ours := spec.RegionOf(n.ProviderID); !ours || i < 0 {
			continue
		}
		if own := spec.ProviderID(ks.Spec.Proxmox.Region, vms[i].VMID); n.ProviderID != own {
			return converge.Permanent(fmt.Errorf("%s is %s in Kubernetes, and its machine is %s: storage.proxmox would attach volumes to the first; homelab node:replace -node=%s gives it the ID of its machine",
				n.Name, n.ProviderID, own, printable.Word(n.Name)))
		}
	}
	return nil
}
