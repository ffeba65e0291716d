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

// localPath is the provisioner that K3s brings. It is always there.
const localPath = "rancher.io/local-path"

// volumes plays the controller that binds claims, and every provisioner.
func (c *Cluster) volumes() {
	c.reclaim()
	ready := map[string]bool{localPath: true}
	users := map[string]*corev1.Pod{} // of claims, by namespace and name: pods on a node
	for _, e := range c.all("pods") {
		p := typed[corev1.Pod](e)
		if control.Ready(p) && p.DeletionTimestamp == nil {
			for _, name := range provisions(p) {
				ready[name] = true
			}
		}
		if p.Spec.NodeName == "" {
			continue
		}
		for _, name := range control.ClaimsOf(p) {
			users[key(p.Namespace, name)] = p
		}
	}
	for _, e := range c.all("persistentvolumeclaims") {
		claim := typed[corev1.PersistentVolumeClaim](e)
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		c.bindClaim(e, claim, ready, users[key(claim.Namespace, claim.Name)])
	}
}

// provisioners are programs that are known by a part of their image's name.
var provisioners = [...][2]string{
	{"nfsplugin", "nfs.csi.k8s.io"}, {"cephcsi", "cephfs.csi.ceph.com"}, {"longhorn-manager", "driver.longhorn.io"},
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

// bindClaim gives a claim the volume that it names, or a new one of its class.
func (c *Cluster) bindClaim(e *entry, claim *corev1.PersistentVolumeClaim, ready map[string]bool, user *corev1.Pod) {
	name := claim.Spec.VolumeName
	if name == "" {
		class := c.classOf(claim)
		switch {
		case class == nil || !ready[class.Provisioner]:
			c.putStatus(e, &corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending})
			return
		case class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && user == nil:
			c.putStatus(e, &corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending})
			return
		}
		name = "pvc-" + string(claim.UID)
		c.putTyped(mustKind("persistentvolumes"), newVolume(name, claim, class, user))
		spec := claim.Spec.DeepCopy()
		spec.VolumeName, spec.StorageClassName = name, &class.Name
		e = c.putField(e, "spec", toMap(spec))
	}
	pe := c.get(mustKind("persistentvolumes"), "", name)
	if pe == nil {
		return
	}
	pv := typed[corev1.PersistentVolume](pe)
	c.putStatus(e, &corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: pv.Spec.AccessModes, Capacity: pv.Spec.Capacity})
	c.putStatus(pe, &corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound})
}

// classOf returns the class of a claim: its own, or the default.
func (c *Cluster) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	for _, e := range c.all("storageclasses.storage.k8s.io") {
		class := typed[storagev1.StorageClass](e)
		if claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == class.Name ||
			claim.Spec.StorageClassName == nil && class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return class
		}
	}
	return nil
}

// newVolume is what a provisioner makes. A class that waits for the first pod keeps
// its volumes on the nodes' own disks: such a volume is that node's.
func newVolume(name string, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, user *corev1.Pod) *corev1.PersistentVolume {
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": class.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name, MountOptions: class.MountOptions,
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: class.Provisioner, VolumeHandle: name}},
		},
	}
	if class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && user != nil {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{user.Spec.NodeName}}},
		}}}}
	}
	return pv
}

// reclaim removes volumes whose claims are gone, or lets them be.
func (c *Cluster) reclaim() {
	for _, e := range c.all("persistentvolumes") {
		pv := typed[corev1.PersistentVolume](e)
		ref := pv.Spec.ClaimRef
		if ref == nil || ref.UID == "" {
			continue
		}
		if claim := c.get(mustKind("persistentvolumeclaims"), ref.Namespace, ref.Name); claim != nil && claim.uid == string(ref.UID) {
			continue
		}
		if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			delete(c.disks, pv.Name)
			c.remove(e)
			continue
		}
		c.putStatus(e, &corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased})
	}
}

// homeOf says which node a pod's volumes tie it to; empty: none.
func (c *Cluster) homeOf(p *corev1.Pod) *corev1.VolumeNodeAffinity {
	for _, name := range control.ClaimsOf(p) {
		if pv := c.volumeOf(p.Namespace, name); pv != nil && pv.Spec.NodeAffinity != nil {
			return pv.Spec.NodeAffinity
		}
	}
	return nil
}

// volumeOf is the volume that a claim is bound to, or nil.
func (c *Cluster) volumeOf(namespace, claim string) *corev1.PersistentVolume {
	e := c.get(mustKind("persistentvolumeclaims"), namespace, claim)
	if e == nil || typed[corev1.PersistentVolumeClaim](e).Status.Phase != corev1.ClaimBound {
		return nil
	}
	pe := c.get(mustKind("persistentvolumes"), "", typed[corev1.PersistentVolumeClaim](e).Spec.VolumeName)
	if pe == nil {
		return nil
	}
	return typed[corev1.PersistentVolume](pe)
}

// unbound says which claim of a pod has no volume yet; empty: all have.
func (c *Cluster) unbound(p *corev1.Pod) string {
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

// waitsForVolume says why a pod may not be scheduled: a claim of a class that binds
// at once is not bound.
func (c *Cluster) waitsForVolume(p *corev1.Pod) string {
	for _, name := range control.ClaimsOf(p) {
		e := c.get(mustKind("persistentvolumeclaims"), p.Namespace, name)
		if e == nil {
			return fmt.Sprintf("persistentvolumeclaim %q not found", name)
		}
		claim := typed[corev1.PersistentVolumeClaim](e)
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		class := c.classOf(claim)
		if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
			return "pod has unbound immediate PersistentVolumeClaims"
		}
	}
	return ""
}

// ephemeral makes the claims of a pod's ephemeral volumes, which go with the pod.
func (c *Cluster) ephemeral() {
	yes := true
	for _, e := range c.all("pods") {
		p := typed[corev1.Pod](e)
		for _, v := range p.Spec.Volumes {
			if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil || c.get(mustKind("persistentvolumeclaims"), p.Namespace, p.Name+"-"+v.Name) != nil {
				continue
			}
			c.putTyped(mustKind("persistentvolumeclaims"), &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-" + v.Name, Namespace: p.Namespace, OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes}}},
				Spec: v.Ephemeral.VolumeClaimTemplate.Spec,
			})
		}
	}
}

// claimTemplates makes the claims of a StatefulSet's pods. They outlive it.
func (c *Cluster) claimTemplates(namespace, pod string, templates []corev1.PersistentVolumeClaim) []corev1.Volume {
	var out []corev1.Volume
	for i := range templates {
		t := templates[i].DeepCopy()
		name := t.Name + "-" + pod
		if c.get(mustKind("persistentvolumeclaims"), namespace, name) == nil {
			t.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: t.Labels, Annotations: t.Annotations}
			t.Status = corev1.PersistentVolumeClaimStatus{}
			c.putTyped(mustKind("persistentvolumeclaims"), t)
		}
		out = append(out, corev1.Volume{Name: templates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	return out
}

// mountDisks gives a container the disks behind its pod's claims.
func (c *Cluster) mountDisks(p *corev1.Pod, ct *corev1.Container) map[string]*guest.Disk {
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
