package operators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/proxmoxcsi"
)

func attachments() kind { return kind{"storage.k8s.io", "v1", "volumeattachments"} }

// proxmoxProgram is the controller of Proxmox's storage driver, with the attach-detach controller of Kubernetes.
func proxmoxProgram() program {
	return program{name: proxmoxcsi.Driver, image: "proxmox-csi-controller", sync: proxmoxStorage,
		watch: []kind{claims(), volumes(), classes(), attachments(), {"", "v1", "pods"}, {"", "v1", "nodes"}}}
}

// proxmoxStorage makes the volumes of claims, and attaches each to the machine of the pod that uses it.
func proxmoxStorage(ctx context.Context, i *instance) (time.Duration, error) {
	controller, err := i.proxmoxController(ctx)
	if err != nil {
		return 0, err
	}
	p := &proxmoxDriver{i, controller}
	again, err := i.provision(ctx, driver{name: proxmoxcsi.Driver, volume: p.create,
		grow: func(ctx context.Context, pv *corev1.PersistentVolume, bytes int64) error {
			return controller.Grow(ctx, pv.Spec.CSI.VolumeHandle, bytes)
		},
		remove: func(ctx context.Context, pv *corev1.PersistentVolume) error {
			return controller.Delete(ctx, pv.Spec.CSI.VolumeHandle)
		}})
	if err != nil {
		return 0, err
	}
	wait, err := p.attach(ctx)
	return max(again, wait), err
}

// proxmoxController reads the configuration once, as the driver does when it starts (cmd/controller/main.go): one that
// changes later counts for the next pod.
func (i *instance) proxmoxController(ctx context.Context) (*proxmoxcsi.Controller, error) {
	if c, read := i.kept.(*proxmoxcsi.Controller); read {
		return c, nil
	}
	name := i.secretAt("/etc/proxmox/")
	config, err := i.Client.CoreV1().Secrets(i.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	if i.Proxmox == nil {
		return nil, errors.New("there is no Proxmox VE here")
	}
	c, err := proxmoxcsi.New(config.Data["config.yaml"], i.Proxmox(), 100*time.Millisecond)
	if err != nil {
		return nil, err
	}
	i.kept = c
	return c, nil
}

type proxmoxDriver struct {
	*instance
	*proxmoxcsi.Controller
}

// create makes a volume on the host of the first pod.
func (p *proxmoxDriver) create(ctx context.Context, _ *instance, r request) (*corev1.PersistentVolume, error) {
	node, err := one[corev1.Node](p.instance, kind{"", "v1", "nodes"}, "", r.node)
	if err != nil || node == nil {
		return nil, errors.Join(fmt.Errorf("no node %q", r.node), err)
	}
	region := node.Labels[corev1.LabelTopologyRegion]
	size := r.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	v, err := p.Create(ctx, r.name, r.class.Parameters["storage"], node.Labels[corev1.LabelTopologyZone], size.Value())
	if err != nil {
		return nil, fmt.Errorf("rpc error: code = Internal desc = %w", err)
	}
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	near := []corev1.NodeSelectorRequirement{in(corev1.LabelTopologyRegion, region)}
	if len(v.Zones) > 0 {
		near = append(near, in(corev1.LabelTopologyZone, v.Zones...))
	}
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		NodeAffinity:           &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: near}}}},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: proxmoxcsi.Driver, VolumeHandle: v.ID}},
	}}, nil
}

// attach detaches volumes that no pod on their node uses any longer, and attaches those that a pod waits for.
func (p *proxmoxDriver) attach(ctx context.Context) (again time.Duration, err error) {
	wanted, err := p.uses()
	if err != nil {
		return 0, err
	}
	have, err := all[storagev1.VolumeAttachment](p.instance, attachments())
	if err != nil {
		return 0, err
	}
	have = slices.DeleteFunc(have, func(a *storagev1.VolumeAttachment) bool { return a.Spec.Attacher != proxmoxcsi.Driver })
	for _, a := range have {
		if _, used := wanted[attachmentName(*a.Spec.Source.PersistentVolumeName, a.Spec.NodeName)]; used {
			continue
		}
		if err := p.detach(ctx, a); err != nil {
			return 0, err
		}
		again = time.Second // the next node may wait for it
	}
	for name, u := range wanted {
		if slices.ContainsFunc(have, func(a *storagev1.VolumeAttachment) bool { return a.Name == name }) {
			continue
		}
		if slices.ContainsFunc(have, func(a *storagev1.VolumeAttachment) bool { return *a.Spec.Source.PersistentVolumeName == u.pv.Name }) {
			p.events.Eventf(u.pod, corev1.EventTypeWarning, "FailedAttachVolume", "Multi-Attach error for volume %q Volume is already exclusively attached to one node and can't be attached to another", u.pv.Name)
			again = time.Second
			continue
		}
		if err := p.attachOne(ctx, name, u); err != nil {
			p.events.Eventf(u.pod, corev1.EventTypeWarning, "FailedAttachVolume", "AttachVolume.Attach failed for volume %q : rpc error: code = Internal desc = %v", u.pv.Name, err)
			again = 5 * time.Second
			continue
		}
		p.events.Eventf(u.pod, corev1.EventTypeNormal, "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume %q ", u.pv.Name)
	}
	return again, nil
}

// use is a pod's use of a volume.
type use struct {
	pod *corev1.Pod
	pv  *corev1.PersistentVolume
}

func attachmentName(volume, node string) string { return "csi-" + volume + "-" + node }

// uses are the volumes that pods on nodes use, by the names of their attachments.
func (p *proxmoxDriver) uses() (map[string]use, error) {
	pods, err := all[corev1.Pod](p.instance, kind{"", "v1", "pods"})
	if err != nil {
		return nil, err
	}
	out := map[string]use{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			name := ""
			switch {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = pod.Name + "-" + v.Name
			default:
				continue
			}
			claim, err := one[corev1.PersistentVolumeClaim](p.instance, claims(), pod.Namespace, name)
			if err != nil || claim == nil || claim.Status.Phase != corev1.ClaimBound {
				continue
			}
			pv, err := one[corev1.PersistentVolume](p.instance, volumes(), "", claim.Spec.VolumeName)
			if err == nil && pv != nil && pv.Spec.CSI != nil && pv.Spec.CSI.Driver == proxmoxcsi.Driver {
				out[attachmentName(pv.Name, pod.Spec.NodeName)] = use{pod, pv}
			}
		}
	}
	return out, nil
}

// node is a node as the driver sees it; nil: there is none.
func (p *proxmoxDriver) node(name string) (*proxmoxcsi.Node, error) {
	n, err := one[corev1.Node](p.instance, kind{"", "v1", "nodes"}, "", name)
	if err != nil || n == nil {
		return nil, err
	}
	return &proxmoxcsi.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID}, nil
}

func (p *proxmoxDriver) attachOne(ctx context.Context, name string, u use) error {
	n, err := p.node(u.pod.Spec.NodeName)
	if err != nil || n == nil {
		return errors.Join(errors.New("instance not found"), err)
	}
	slot, err := p.Attach(ctx, u.pv.Spec.CSI.VolumeHandle, *n)
	if err != nil {
		return err
	}
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: proxmoxcsi.Driver, NodeName: n.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &u.pv.Name}}}
	a, err = p.Client.StorageV1().VolumeAttachments().Create(ctx, a, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	a.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"lun": slot}}
	_, err = p.Client.StorageV1().VolumeAttachments().UpdateStatus(ctx, a, metav1.UpdateOptions{})
	return err
}

// detach takes a volume out of a machine. A node that is gone has none.
func (p *proxmoxDriver) detach(ctx context.Context, a *storagev1.VolumeAttachment) error {
	pv, err := one[corev1.PersistentVolume](p.instance, volumes(), "", *a.Spec.Source.PersistentVolumeName)
	if err != nil {
		return err
	}
	n, err := p.node(a.Spec.NodeName)
	if err != nil {
		return err
	}
	if pv != nil && n != nil {
		if err := p.Detach(ctx, pv.Spec.CSI.VolumeHandle, *n); err != nil {
			return fmt.Errorf("detach %s from %s: %w", pv.Name, n.Name, err)
		}
	}
	if err := p.Client.StorageV1().VolumeAttachments().Delete(ctx, a.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// secretAt is the Secret that the container has at a path.
func (i *instance) secretAt(at string) string {
	v := i.volumeAt(at)
	if v == nil || v.Secret == nil {
		return ""
	}
	return v.Secret.SecretName
}
