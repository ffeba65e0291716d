package members

import (
	"maps"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/nvidia"
)

// nodeLabels are the labels from the file, and those that other components look for.
func nodeLabels(s *spec.Spec, n spec.Node) map[string]string {
	out := map[string]string{}
	maps.Copy(out, topology(s, n))
	maps.Copy(out, n.Labels)
	if n.Pool != "" {
		out[names.PoolLabel] = n.Pool
	}
	if n.HasGPUs() {
		out[nvidia.LabelPresent] = "true"
		if s.NVIDIA.Stack != spec.StackNone { // the same with the operator: K3s restarts for another label
			out[sharingLabel] = sharingName(s, n)
		}
		if s.NVIDIA.Stack == spec.StackOperator && out[sharingLabel] != asCluster {
			out[nvidia.LabelConfig] = n.GPUs.Sharing.Name()
		}
	}
	return out
}

// betaPrefix is that of the labels that K3s' cloud controller copies when a node registers. From then on it
// sets the others to what these say (labelReconcileInfo, k8s.io/cloud-provider/controllers/node), so they
// change together.
const betaPrefix = "failure-domain.beta.kubernetes.io/"

// topology are the labels that say where a VM's node is: the Proxmox cluster and the host.
func topology(s *spec.Spec, n spec.Node) map[string]string {
	if !n.OnProxmox() {
		return nil
	}
	return map[string]string{
		spec.RegionLabel: s.Proxmox.Region, betaPrefix + "region": s.Proxmox.Region,
		spec.ZoneLabel: n.Host, betaPrefix + "zone": n.Host,
	}
}
