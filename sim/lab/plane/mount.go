package plane

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
	"github.com/cps-gpu/homelab/sim/proxmoxcsi"
)

// mounted is a volume as a container sees it: initial files, or a disk that outlives the pod,
// with the mounted folder.
type mounted struct {
	files map[string][]byte
	disk  func(subPath string) *guest.Disk
}

// mounts makes the volumes of a pod ready.
func (k *kubelet) mounts(ctx context.Context, m *member, pod *corev1.Pod) (map[string]mounted, error) {
	all := map[string]mounted{}
	for _, v := range pod.Spec.Volumes {
		place, err := k.place(ctx, m, pod, v)
		if err != nil {
			return nil, err
		}
		if place != "" {
			all[v.Name] = mounted{disk: func(subPath string) *guest.Disk { return k.contents.Disk(place + path.Clean("/"+subPath)) }}
			continue
		}
		files, err := k.volume(ctx, pod, v)
		if err != nil {
			return nil, err
		}
		all[v.Name] = mounted{files: files}
	}
	return all, nil
}

// place says where the contents of a volume are stored; "" for those that end with the pod.
func (k *kubelet) place(ctx context.Context, m *member, pod *corev1.Pod, v corev1.Volume) (string, error) {
	switch {
	case v.NFS != nil:
		return traffic.NFSPlace(v.NFS.Server, v.NFS.Path), nil
	case v.HostPath != nil:
		return traffic.NodePlace(m.Name, v.HostPath.Path), nil
	case v.PersistentVolumeClaim != nil:
		return k.claimed(ctx, m, pod, v.Name, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return k.claimed(ctx, m, pod, v.Name, pod.Name+"-"+v.Name)
	}
	return "", nil
}

// claimed is the place of the volume that a claim is bound to.
func (k *kubelet) claimed(ctx context.Context, m *member, pod *corev1.Pod, volume, name string) (string, error) {
	claim, err := k.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", &mountError{Volume: volume, Err: err}
	}
	if err != nil {
		return "", fmt.Errorf("claim %s: %w", name, err)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return "", &mountError{Volume: volume, Err: fmt.Errorf("PVC %s/%s is not bound", pod.Namespace, name)}
	}
	pv, err := k.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("volume of claim %s: %w", name, err)
	}
	if err := k.attached(ctx, m, pv); err != nil {
		return "", &mountError{Volume: volume, Err: err}
	}
	return traffic.VolumePlace(pv, m.Name), nil
}

// attached waits for the disk of a driver that attaches disks: only Proxmox's does so here.
func (k *kubelet) attached(ctx context.Context, m *member, pv *corev1.PersistentVolume) error {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != proxmoxcsi.Driver {
		return nil
	}
	all, err := k.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, a := range all.Items {
		if a.Spec.NodeName == m.Name && a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == pv.Name && a.Status.Attached {
			return nil
		}
	}
	return fmt.Errorf("volume %s is not attached to %s yet", pv.Name, m.Name)
}

// startable reports what keeps the containers of a pod from starting: a missing object of a
// volume or a variable. It applies also to pods that only appear to run.
func (k *kubelet) startable(ctx context.Context, m *member, pod *corev1.Pod) error {
	_, err := k.containers(ctx, m, pod)
	return err
}
