package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NFSDriver is the provisioner of csi-driver-nfs.
const NFSDriver = "nfs.csi.k8s.io"

// Share is a folder of an NFS server for the pods of a namespace. It stays when its volume and claim are deleted.
type Share struct {
	Claim        metav1.ObjectMeta // the volume has its labels
	Volume       string            // name; unique in the cluster
	Server       string
	Path         string // absolute, on the server
	MountOptions []string
}

// Objects are the volume and the claim that is bound to it.
func (s Share) Objects() []runtime.Object {
	// NFS ignores the size, but volume and claim must have the same.
	modes, size := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	return []runtime.Object{
		&corev1.PersistentVolume{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
			ObjectMeta: metav1.ObjectMeta{Name: s.Volume, Labels: s.Claim.Labels},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, MountOptions: s.MountOptions,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: s.Claim.Namespace, Name: s.Claim.Name},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: NFSDriver, VolumeHandle: s.Server + "#" + s.Path + "#" + s.Volume,
					VolumeAttributes: map[string]string{"server": s.Server, "share": s.Path},
				}},
			},
		},
		&corev1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: s.Claim,
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new(string), VolumeName: s.Volume, AccessModes: modes,
				Resources: corev1.VolumeResourceRequirements{Requests: size}},
		},
	}
}
