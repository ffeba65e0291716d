package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// Kinds of storage.
const (
	annProvisioner   = "volume.kubernetes.io/storage-provisioner" // set by the controller-manager on a claim: whose turn it is
	annSelectedNode  = "volume.kubernetes.io/selected-node"       // set by the scheduler: where the first consumer goes
	annProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

func claims() kind  { return kind{"", "v1", "persistentvolumeclaims"} }
func volumes() kind { return kind{"", "v1", "persistentvolumes"} }
func classes() kind { return kind{"storage.k8s.io", "v1", "storageclasses"} }

func storagePrograms() []program {
	watch := []kind{claims(), volumes(), classes()}
	return []program{
		{name: "nfs.csi.k8s.io", image: "sig-storage/nfsplugin", is: nfsController, watch: watch, sync: func(ctx context.Context, i *instance) (time.Duration, error) {
			return i.provision(ctx, driver{name: i.argument("drivername"), volume: nfsVolume})
		}},
		{name: "cephfs.csi.ceph.com", image: "cephcsi/cephcsi", is: cephController, watch: watch, sync: func(ctx context.Context, i *instance) (time.Duration, error) {
			return i.provision(ctx, driver{name: i.argument("drivername"), volume: cephVolume})
		}},
		{name: "local-path-provisioner", image: "local-path-provisioner", watch: watch, sync: localPath},
		proxmoxProgram(),
		{name: "driver", image: "homelab.lab/driver", watch: watch, sync: anyDriver},
		{name: "longhorn-manager", image: "longhorn-manager", is: longhornDaemon, watch: watch, sync: longhorn},
	}
}

// anyDriver makes the volumes of the classes that a part of the platform owns.
func anyDriver(ctx context.Context, i *instance) (time.Duration, error) {
	list, err := all[storagev1.StorageClass](i, classes())
	if err != nil {
		return 0, err
	}
	var again time.Duration
	for _, class := range list {
		if class.Labels["app.kubernetes.io/name"] != i.argument("part") {
			continue
		}
		wait, err := i.provision(ctx, driver{name: class.Provisioner, volume: anyVolume})
		if err != nil {
			return 0, err
		}
		again = max(again, wait)
	}
	return again, nil
}

// anyVolume is on the node of its first pod, if its class waits for one.
func anyVolume(_ context.Context, _ *instance, r request) (*corev1.PersistentVolume, error) {
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: r.class.Provisioner, VolumeHandle: r.name},
	}}}
	if r.node != "" {
		pv.Spec.NodeAffinity = onNode(r.node)
	}
	return pv, nil
}

// hasArgument reports whether a container's command line has a word.
func hasArgument(c corev1.Container, word string) bool {
	return slices.Contains(c.Command, word) || slices.Contains(c.Args, word)
}

// nfsController distinguishes the controller's container from that of a node: only the
// controller has a working folder of its own.
func nfsController(c corev1.Container) bool {
	return slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--working-mount-dir") })
}

func cephController(c corev1.Container) bool {
	return hasArgument(c, "--controllerserver=true") && hasArgument(c, "--type=cephfs")
}

// driver is the specific part of a provisioner.
type driver struct {
	name string
	// volume says what a new volume is: its source and where it can be used. A nil
	// source and no error: not yet.
	volume func(ctx context.Context, i *instance, r request) (*corev1.PersistentVolume, error)
	// grow and remove do that to a volume, if there is more to it than its object; else nil.
	grow   func(ctx context.Context, pv *corev1.PersistentVolume, bytes int64) error
	remove func(ctx context.Context, pv *corev1.PersistentVolume) error
}

// request is one requested volume.
type request struct {
	claim *corev1.PersistentVolumeClaim
	class *storagev1.StorageClass
	node  string // that the scheduler has chosen; "" where the class binds at once
	name  string // of the new volume
}

// provision makes a volume for each claim that waits for this driver, grows those
// whose claim has grown, and deletes what is released.
func (i *instance) provision(ctx context.Context, d driver) (time.Duration, error) {
	all, err := allClaims(i)
	if err != nil {
		return 0, err
	}
	var again time.Duration
	for _, claim := range all {
		if claim.Annotations[annProvisioner] != d.name || claim.DeletionTimestamp != nil {
			continue
		}
		if claim.Spec.VolumeName != "" {
			done, err := i.grow(ctx, d, claim)
			if err != nil {
				return 0, err
			}
			if !done {
				again = 5 * time.Second
			}
			continue
		}
		done, err := i.provisionOne(ctx, d, claim)
		if err != nil {
			return 0, err
		}
		if !done {
			again = 5 * time.Second
		}
	}
	return again, i.reclaim(ctx, d)
}

func allClaims(i *instance) ([]*corev1.PersistentVolumeClaim, error) {
	return all[corev1.PersistentVolumeClaim](i, claims())
}

// provisionOne returns false if it has to be retried.
func (i *instance) provisionOne(ctx context.Context, d driver, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim.Spec.StorageClassName == nil {
		return true, nil
	}
	class, err := one[storagev1.StorageClass](i, classes(), "", *claim.Spec.StorageClassName)
	if err != nil || class == nil || class.Provisioner != d.name {
		return true, err
	}
	r := request{claim: claim, class: class, node: claim.Annotations[annSelectedNode], name: "pvc-" + string(claim.UID)}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if waits && r.node == "" {
		return true, nil
	}
	if there, err := one[corev1.PersistentVolume](i, volumes(), "", r.name); err != nil || there != nil {
		return true, err // the controller-manager is about to bind it
	}
	i.events.Eventf(claim, corev1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name)
	pv, err := d.volume(ctx, i, r)
	if err != nil {
		i.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", class.Name, err)
		return false, nil
	}
	r.complete(pv, d.name)
	if _, err := i.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("volume of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	i.events.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", r.name)
	return true, nil
}

// complete fills in what all drivers share.
func (r request) complete(pv *corev1.PersistentVolume, driver string) {
	pv.Name = r.name
	pv.Annotations = map[string]string{annProvisionedBy: driver}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: r.claim.Spec.Resources.Requests[corev1.ResourceStorage]}
	pv.Spec.AccessModes = r.claim.Spec.AccessModes
	pv.Spec.StorageClassName = r.class.Name
	pv.Spec.VolumeMode = r.claim.Spec.VolumeMode
	pv.Spec.MountOptions = r.class.MountOptions
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if r.class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *r.class.ReclaimPolicy
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: r.claim.Namespace, Name: r.claim.Name, UID: r.claim.UID, ResourceVersion: r.claim.ResourceVersion,
	}
}

// grow gives a volume the size that its claim has been changed to; it returns false if it has to be retried.
func (i *instance) grow(ctx context.Context, d driver, claim *corev1.PersistentVolumeClaim) (bool, error) {
	want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	have, bound := claim.Status.Capacity[corev1.ResourceStorage]
	if !bound || want.Cmp(have) <= 0 {
		return true, nil
	}
	pv, err := i.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("volume of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if d.grow != nil {
		if err := d.grow(ctx, pv, want.Value()); err != nil {
			i.events.Eventf(claim, corev1.EventTypeWarning, "VolumeResizeFailed", "resize volume %q by resizer %q failed: rpc error: code = Internal desc = %v", pv.Name, d.name, err)
			return false, nil
		}
	}
	pv.Spec.Capacity[corev1.ResourceStorage] = want
	if _, err := i.Client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("grow %s: %w", pv.Name, err)
	}
	claim.Status.Capacity[corev1.ResourceStorage] = want
	if _, err := i.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("grow %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return true, nil
}

// reclaim deletes released volumes whose policy says so, contents and all.
func (i *instance) reclaim(ctx context.Context, d driver) error {
	list, err := all[corev1.PersistentVolume](i, volumes())
	if err != nil {
		return err
	}
	for _, pv := range list {
		if pv.Status.Phase != corev1.VolumeReleased || pv.DeletionTimestamp != nil || pv.Annotations[annProvisionedBy] != d.name ||
			pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		if d.remove != nil {
			if err := d.remove(ctx, pv); err != nil {
				return fmt.Errorf("delete volume %s: %w", pv.Name, err)
			}
		}
		if !keepsFolder(pv) {
			i.Volumes.Forget(traffic.VolumePlace(pv, affineNode(pv)))
		}
		err := i.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete volume %s: %w", pv.Name, err)
		}
	}
	return nil
}

// keepsFolder is the NFS driver's onDelete: the volume is deleted, its folder stays.
func keepsFolder(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && slices.Contains([]string{"retain", "archive"}, pv.Spec.CSI.VolumeAttributes["onDelete"])
}

// affineNode is the node that a local volume is tied to.
func affineNode(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			if len(e.Values) == 1 {
				return e.Values[0]
			}
		}
	}
	return ""
}

// nfsVolume is a folder of its own on the class's server.
func nfsVolume(_ context.Context, i *instance, r request) (*corev1.PersistentVolume, error) {
	p := r.class.Parameters
	for _, must := range []string{"server", "share"} {
		if p[must] == "" {
			return nil, fmt.Errorf("rpc error: code = InvalidArgument desc = %s is a required parameter", must)
		}
	}
	for name := range p {
		switch strings.ToLower(name) {
		case "server", "share", "subdir", "ondelete", "mountpermissions", "mountoptions":
		default:
			if !strings.HasPrefix(name, "csi.storage.k8s.io/") {
				return nil, fmt.Errorf("rpc error: code = InvalidArgument desc = invalid parameter %q in storage class", name)
			}
		}
	}
	folder := r.name
	if p["subDir"] != "" {
		folder = strings.NewReplacer("${pvc.metadata.name}", r.claim.Name, "${pvc.metadata.namespace}", r.claim.Namespace, "${pv.metadata.name}", r.name).Replace(p["subDir"])
	}
	attributes := map[string]string{"server": p["server"], "share": p["share"], "subdir": folder, "csi.storage.k8s.io/pv/name": r.name,
		"csi.storage.k8s.io/pvc/name": r.claim.Name, "csi.storage.k8s.io/pvc/namespace": r.claim.Namespace}
	for _, name := range []string{"onDelete", "mountPermissions"} {
		if p[name] != "" {
			attributes[name] = p[name]
		}
	}
	handle := strings.Join([]string{p["server"], strings.Trim(p["share"], "/"), folder, r.name, p["onDelete"]}, "#")
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: i.argument("drivername"), VolumeHandle: handle, VolumeAttributes: attributes},
	}}}, nil
}

// cephVolume is a subvolume; its user is in a Secret, and its cluster in the driver's
// ConfigMap.
func cephVolume(ctx context.Context, i *instance, r request) (*corev1.PersistentVolume, error) {
	p := r.class.Parameters
	name, namespace := p["csi.storage.k8s.io/provisioner-secret-name"], p["csi.storage.k8s.io/provisioner-secret-namespace"]
	secret, err := i.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("error getting secret %s in namespace %s: %w", name, namespace, err)
	}
	if len(secret.Data["userID"])+len(secret.Data["adminID"]) == 0 {
		return nil, fmt.Errorf("rpc error: code = InvalidArgument desc = missing ID field 'userID' in secrets")
	}
	config, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, i.mounted("/etc/ceph-csi-config/"), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("the driver's configuration: %w", err)
	}
	if !strings.Contains(config.Data["config.json"], `"`+p["clusterID"]+`"`) {
		return nil, fmt.Errorf("rpc error: code = InvalidArgument desc = missing configuration for cluster ID %q", p["clusterID"])
	}
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: i.argument("drivername"), VolumeHandle: "0001-0024-" + p["clusterID"] + "-" + string(r.claim.UID),
			VolumeAttributes: map[string]string{"clusterID": p["clusterID"], "fsName": p["fsName"], "storage.kubernetes.io/csiProvisionerIdentity": "lab"}},
	}}}, nil
}

// mounted is the ConfigMap that the container has at a path.
func (i *instance) mounted(at string) string {
	v := i.volumeAt(at)
	if v == nil || v.ConfigMap == nil {
		return ""
	}
	return v.ConfigMap.Name
}

// volumeAt is what the container has at a path; nil: nothing.
func (i *instance) volumeAt(at string) *corev1.Volume {
	for _, m := range i.container.VolumeMounts {
		if strings.TrimSuffix(m.MountPath, "/") != strings.TrimSuffix(at, "/") {
			continue
		}
		for _, v := range i.pod.Spec.Volumes {
			if v.Name == m.Name {
				return &v
			}
		}
	}
	return nil
}
