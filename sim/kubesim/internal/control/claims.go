package control

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// SelectedNode is the annotation by which the scheduler says where a claim's first consumer goes.
	SelectedNode = "volume.kubernetes.io/selected-node"
	// Provisioner is the annotation by which a claim asks a provisioner for its volume.
	Provisioner       = "volume.kubernetes.io/storage-provisioner"
	oldProvisioner    = "volume.beta.kubernetes.io/storage-provisioner"
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	claimProtection   = "kubernetes.io/pvc-protection"
	volumeProtection  = "kubernetes.io/pv-protection"
)

// claims binds claims and volumes, asks provisioners for those that are missing, and lets go of
// what nobody uses: pkg/controller/volume/persistentvolume, pvcprotection and pvprotection.
func (c *Controllers) claims(pods podIndex) {
	c.ephemeral(pods)
	used := map[string]bool{} // by namespace and name
	for _, p := range pods.all {
		if p.Spec.NodeName == "" {
			continue
		}
		for _, name := range ClaimsOf(p) {
			used[p.Namespace+"/"+name] = true
		}
	}
	for _, claim := range All[corev1.PersistentVolumeClaim](c, "persistentvolumeclaims") {
		if claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, claimProtection) && !used[claim.Namespace+"/"+claim.Name] {
			out := claim.DeepCopy()
			out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return f == claimProtection })
			c.Update(out)
			continue
		}
		c.claim(claim)
	}
	for _, pv := range All[corev1.PersistentVolume](c, "persistentvolumes") {
		c.volume(pv)
	}
}

// ClaimsOf are the names of the claims that a pod mounts, those of its ephemeral volumes too.
func ClaimsOf(p *corev1.Pod) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, p.Name+"-"+v.Name)
		}
	}
	return out
}

// ephemeral makes the claims of pods' ephemeral volumes.
func (c *Controllers) ephemeral(pods podIndex) {
	for _, p := range pods.all {
		for _, v := range p.Spec.Volumes {
			if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil || p.DeletionTimestamp != nil ||
				Get[corev1.PersistentVolumeClaim](c, "persistentvolumeclaims", p.Namespace, p.Name+"-"+v.Name) != nil {
				continue
			}
			t := v.Ephemeral.VolumeClaimTemplate
			if err := c.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-" + v.Name, Namespace: p.Namespace,
				Labels: t.Labels, Annotations: t.Annotations, OwnerReferences: controlledBy(p, "v1", "Pod")}, Spec: *t.Spec.DeepCopy()}); err != nil {
				c.Event(p, corev1.EventTypeWarning, "FailedCreate", err.Error())
			}
		}
	}
}

func (c *Controllers) claim(claim *corev1.PersistentVolumeClaim) {
	if claim.Spec.VolumeName != "" {
		pv := Get[corev1.PersistentVolume](c, "persistentvolumes", "", claim.Spec.VolumeName)
		switch {
		case pv == nil && claim.Annotations[bindCompleted] != "":
			c.claimPhase(claim, corev1.ClaimLost, nil)
			c.Event(claim, corev1.EventTypeWarning, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
		case pv != nil && (pv.Spec.ClaimRef == nil || refersTo(pv.Spec.ClaimRef, claim)):
			c.bind(claim, pv)
		}
		return
	}
	class := Get[storagev1.StorageClass](c, "storageclasses.storage.k8s.io", "", or(claim.Spec.StorageClassName, ""))
	waits := class != nil && or(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
	chosen := claim.Annotations[SelectedNode] != ""
	if pv := c.match(claim, waits && !chosen); pv != nil {
		c.bind(claim, pv)
		return
	}
	switch {
	case or(claim.Spec.StorageClassName, "") == "":
		c.Event(claim, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	case class == nil:
		c.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("storageclass.storage.k8s.io %q not found", *claim.Spec.StorageClassName))
	case waits && !chosen:
		c.Event(claim, corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case claim.Annotations[Provisioner] != class.Provisioner && claim.DeletionTimestamp == nil:
		out := claim.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[Provisioner], out.Annotations[oldProvisioner] = class.Provisioner, class.Provisioner
		c.Update(out)
		c.Event(claim, corev1.EventTypeNormal, "ExternalProvisioning", fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' "+
			"or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", class.Provisioner))
	}
}

func refersTo(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// match finds the volume for a claim: one that was made for it, else the smallest that is free and
// large enough. reserved: only one that was made for it.
func (c *Controllers) match(claim *corev1.PersistentVolumeClaim, reserved bool) *corev1.PersistentVolume {
	var best *corev1.PersistentVolume
	want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, pv := range All[corev1.PersistentVolume](c, "persistentvolumes") {
		if ref := pv.Spec.ClaimRef; ref != nil {
			if refersTo(ref, claim) && pv.DeletionTimestamp == nil {
				return pv
			}
			continue
		}
		size := pv.Spec.Capacity[corev1.ResourceStorage]
		fits := !reserved && pv.DeletionTimestamp == nil && pv.Status.Phase == corev1.VolumeAvailable && size.Cmp(want) >= 0 &&
			pv.Spec.StorageClassName == or(claim.Spec.StorageClassName, "") &&
			or(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == or(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) &&
			(claim.Spec.Selector == nil || Selects(claim.Spec.Selector, pv.Labels)) &&
			!slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(pv.Spec.AccessModes, m) })
		if !fits {
			continue
		}
		if best != nil {
			if other := best.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(other) >= 0 {
				continue
			}
		}
		best = pv
	}
	return best
}

// bind ties a claim and a volume to each other.
func (c *Controllers) bind(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		out := pv.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		if ref == nil {
			out.Annotations[boundByController] = "yes"
		}
		out.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion}
		c.Update(out)
		pv = out
	}
	c.volumePhase(pv, corev1.VolumeBound)
	if claim.Spec.VolumeName != pv.Name || claim.Annotations[bindCompleted] == "" {
		out := claim.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		if out.Spec.VolumeName == "" {
			out.Annotations[boundByController] = "yes"
		}
		out.Annotations[bindCompleted], out.Spec.VolumeName = "yes", pv.Name
		c.Update(out)
		claim = out
	}
	c.claimPhase(claim, corev1.ClaimBound, pv)
}

func (c *Controllers) claimPhase(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, pv *corev1.PersistentVolume) {
	if claim.Status.Phase == phase {
		return
	}
	out := claim.DeepCopy()
	out.Status.Phase = phase
	if pv != nil {
		out.Status.AccessModes, out.Status.Capacity = pv.Spec.AccessModes, pv.Spec.Capacity
	}
	c.Status(out)
}

func (c *Controllers) volumePhase(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
	if pv.Status.Phase == phase {
		return
	}
	out := pv.DeepCopy()
	t := now()
	out.Status.Phase, out.Status.LastPhaseTransitionTime = phase, &t
	c.Status(out)
}

func (c *Controllers) volume(pv *corev1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	bound := false
	switch {
	case ref == nil || ref.UID == "":
		c.volumePhase(pv, corev1.VolumeAvailable)
	default:
		claim := Get[corev1.PersistentVolumeClaim](c, "persistentvolumeclaims", ref.Namespace, ref.Name)
		bound = claim != nil && claim.UID == ref.UID
		if !bound {
			c.volumePhase(pv, corev1.VolumeReleased)
		}
	}
	if !bound && pv.DeletionTimestamp != nil && slices.Contains(pv.Finalizers, volumeProtection) {
		out := Get[corev1.PersistentVolume](c, "persistentvolumes", "", pv.Name).DeepCopy()
		out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return f == volumeProtection })
		c.Update(out)
	}
}
