package kubesim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// Provisions is the annotation, or label, by which a pod is known to be a
// provisioner of volumes: the names of provisioners, with commas between them. A
// claim is bound only while such a pod is ready.
const Provisions = "homelab.cps-gpu.github.com/provisions"

const (
	localPath     = "rancher.io/local-path" // the provisioner that K3s brings; it is always there
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// provision plays the provisioners whose pods are ready: they make the volumes that claims ask
// for, and delete those that nobody claims any more.
func (c *machines) provision() {
	ready := map[string]bool{localPath: true}
	for _, e := range c.all("pods") {
		if p := entryAs[corev1.Pod](e); control.Ready(p) && p.DeletionTimestamp == nil {
			for _, name := range provisions(p) {
				ready[name] = true
			}
		}
	}
	for _, e := range c.all("persistentvolumeclaims") {
		claim := entryAs[corev1.PersistentVolumeClaim](e)
		by := claim.Annotations[control.Provisioner]
		if name := "pvc-" + e.uid; claim.Spec.VolumeName == "" && ready[by] && claim.DeletionTimestamp == nil && c.get(mustKind("persistentvolumes"), "", name) == nil {
			if class := c.get(mustKind("storageclasses"), "", *claim.Spec.StorageClassName); class != nil {
				c.make(newVolume(name, claim, entryAs[storagev1.StorageClass](class)))
			}
		}
	}
	for _, e := range c.all("persistentvolumes") {
		pv := entryAs[corev1.PersistentVolume](e)
		if pv.Status.Phase == corev1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
			ready[pv.Annotations[provisionedBy]] && pv.DeletionTimestamp == nil {
			delete(c.disks, pv.Name)
			c.erase(e, metav1.DeleteOptions{})
		}
	}
}

// provisioners are programs that are known by a part of their image's name.
var provisioners = [...][2]string{
	{"nfsplugin", "nfs.csi.k8s.io"}, {"proxmox-csi-controller", "csi.proxmox.sinextra.dev"}, {"cephcsi", "cephfs.csi.ceph.com"}, {"longhorn-manager", "driver.longhorn.io"},
}

// provisions are the provisioners that a pod is: it says so, or is a known program.
func provisions(p *corev1.Pod) []string {
	var out []string
	for _, names := range []string{p.Annotations[Provisions], p.Labels[Provisions]} {
		for name := range strings.SplitSeq(names, ",") {
			out = append(out, strings.TrimSpace(name))
		}
	}
	for _, ct := range p.Spec.Containers {
		for _, known := range provisioners {
			if strings.Contains(ct.Image, known[0]) {
				out = append(out, known[1])
			}
		}
		args := slices.Concat(ct.Command, ct.Args)
		if i := slices.Index(args, "--provisioner-name"); i >= 0 && i+1 < len(args) { // local-path-provisioner
			out = append(out, args[i+1])
		}
		if i := slices.IndexFunc(ct.Env, func(v corev1.EnvVar) bool { return v.Name == "PROVISIONER_NAME" }); i >= 0 {
			out = append(out, ct.Env[i].Value)
		}
	}
	return out
}

// newVolume is what a provisioner makes. A class that waits for the first pod keeps
// its volumes on the nodes' own disks: such a volume is that node's.
func newVolume(name string, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: class.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name, MountOptions: class.MountOptions,
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: class.Provisioner, VolumeHandle: name}},
		},
	}
	if node := claim.Annotations[control.SelectedNode]; node != "" {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	return pv
}

// volumeOf is the volume that a claim is bound to, or nil.
func (c *machines) volumeOf(namespace, claim string) *corev1.PersistentVolume {
	e := c.get(mustKind("persistentvolumeclaims"), namespace, claim)
	if e == nil || entryAs[corev1.PersistentVolumeClaim](e).Status.Phase != corev1.ClaimBound {
		return nil
	}
	pe := c.get(mustKind("persistentvolumes"), "", entryAs[corev1.PersistentVolumeClaim](e).Spec.VolumeName)
	if pe == nil {
		return nil
	}
	return entryAs[corev1.PersistentVolume](pe)
}

// unbound says which claim of a pod has no volume yet; empty: all have.
func (c *machines) unbound(p *corev1.Pod) string {
	for _, name := range control.ClaimsOf(p) {
		if c.get(mustKind("persistentvolumeclaims"), p.Namespace, name) == nil {
			return fmt.Sprintf("persistentvolumeclaim %q not found", name)
		}
		if c.volumeOf(p.Namespace, name) == nil {
			return fmt.Sprintf("persistentvolumeclaim %q is not bound", name)
		}
	}
	return ""
}

// mountDisks gives a container the disks behind its pod's claims.
func (c *machines) mountDisks(p *corev1.Pod, ct *corev1.Container) map[string]*guest.Disk {
	out := map[string]*guest.Disk{}
	for _, m := range ct.VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			continue
		}
		name := p.Name + "-" + m.Name
		if claim := p.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			name = claim.ClaimName
		} else if p.Spec.Volumes[i].Ephemeral == nil {
			continue
		}
		pv := c.volumeOf(p.Namespace, name)
		if pv == nil {
			continue
		}
		if c.disks[pv.Name] == nil {
			c.disks[pv.Name] = guest.NewDisk()
		}
		out[m.MountPath] = c.disks[pv.Name]
	}
	return out
}
