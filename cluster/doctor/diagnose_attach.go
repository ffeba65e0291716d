package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/addon"
)

// attachFailed begins what the attach-detach controller says about a pod.
const attachFailed = "FailedAttachVolume: "

// explainAttach explains why a pod waits for a disk, and reports whether it does. Messages of the control plane:
// pkg/volume/csi/csi_attacher.go and the attach-detach controller of Kubernetes; of the driver: pkg/csi of
// proxmox-csi-plugin v0.19.1, and the errors of its library go-proxmox.
func (d *diagnosis) explainAttach(p *corev1.Pod, f *Finding) bool {
	i := slices.IndexFunc(f.Evidence, func(said string) bool { return strings.HasPrefix(said, attachFailed) })
	if i < 0 {
		return false
	}
	message := strings.TrimPrefix(f.Evidence[i], attachFailed)
	f.Failure, f.What, f.Do = "attach", "its volume is not attached to "+p.Spec.NodeName+": "+message, "the evidence says what the storage driver waits for"
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(message, part) {
				return true
			}
		}
		return false
	}
	ours := d.e.Spec.Platform.Storage.Proxmox
	switch {
	case has("Multi-Attach error"):
		f.Do = "another node still has it: it comes when the pod there has ended; if that node is lost, see that its machine is off, then kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	case ours == nil:
	case has("timed out waiting for external-attacher", "does not contain driver"):
		f.Do = "does the driver run on that node, and its controller? kubectl -n csi-proxmox get pods -o wide"
	case has("not authorized to access endpoint", "Permission check failed", "403"):
		f.Do = "the token " + printable.Word(ours.TokenID) + " is wrong or lacks privileges: homelab host:role prints what it needs"
	case has("x509:"):
		f.Do = "the driver does not trust the host's certificate: write ca: under storage.proxmox, with a copy of /etc/pve/pve-root-ca.pem"
	case has("no free lun found"):
		f.Do = "the machine has a disk in every SCSI slot: move pods to another node"
	case has("VM machine not found", "instance not found"):
		f.Do = "the driver finds no machine of that node: does its token see it (VM.Audit on /vms), and does the node have the ID of its machine (kubectl get node -o yaml, spec.providerID)?"
		for _, other := range d.found {
			if other.Failure == "provider-id" && strings.Contains(other.Where+" ", " "+p.Spec.NodeName+" ") {
				f.Follows, f.Do = other.name(), "it comes when that is fixed"
			}
		}
	case has(addon.ProxmoxCSIDriver, "rpc error", "connection refused", "no such host", "i/o timeout"):
		f.Do = "kubectl -n csi-proxmox logs deploy/proxmox-csi-controller: does it reach the host, and does the volume exist (pvesm list " + printable.Word(ours.Storage) + " --vmid 9999)?"
	}
	return true
}
