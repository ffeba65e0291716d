package addon

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/kube/chart"
)

const nfsDriver = "nfs.csi.k8s.io"

// NFSOptions say which NFS server volumes are made on.
type NFSOptions struct {
	Common
	Class        string   // of storage; default "nfs"
	Server       string   // address or name
	Export       string   // absolute path on the server; volumes are folders of it
	MountOptions []string // default nfsvers=4.1, hard, noatime
	Delete       bool     // a volume and its folder go with the claim; default: both stay
	Default      bool     // the class of claims that name none
}

// NFSHost is what nodes need to mount NFS.
func NFSHost() Host { return Host{Packages: []string{"nfs-common"}} }

// NFS provides a class of volumes that are folders on an NFS server, named after the
// claim: <namespace>/<claim>-<volume>. A claim made anew under its old name gets a
// new folder; the old one stays beside it.
func NFS(o NFSOptions) (chart.Part, error) {
	if o.Class == "" {
		o.Class = "nfs"
	}
	if o.MountOptions == nil {
		o.MountOptions = nfsMountOptions()
	}
	if err := need("nfs", "server", o.Server, "export", o.Export); err != nil {
		return chart.Part{}, err
	}
	if err := exported("nfs", o.Export); err != nil {
		return chart.Part{}, err
	}
	onDelete := "retain"
	if o.Delete {
		onDelete = "delete"
	}
	v := values{"controller": values{
		// On a server's loss the copy of the controller that works is the other one.
		"replicas": o.few(2),
		"tolerations": o.tolerations(
			exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule),
			exists("CriticalAddonsOnly", corev1.TaintEffectNoSchedule)),
	}}
	r, err := o.release("nfs", "kube-system", v)
	if err != nil {
		return chart.Part{}, err
	}
	r.Name = "csi-driver-nfs"
	sc := class{
		part: "nfs", name: o.Class, provisioner: nfsDriver, isDefault: o.Default, retain: !o.Delete, expand: true,
		parameters: map[string]string{
			"server": o.Server, "share": o.Export,
			"subDir":   "${pvc.metadata.namespace}/${pvc.metadata.name}-${pv.metadata.name}",
			"onDelete": onDelete,
			// The folder's mode. Pods run as many users; who may enter is decided by the claim.
			"mountPermissions": "0777",
		},
		mountOptions: o.MountOptions,
	}
	return chart.Part{Name: "nfs", Release: r, After: []runtime.Object{sc.object()}, Keep: true, Classes: []string{o.Class}}, nil
}

// nfsMountOptions: hard, since a soft mount turns a server's pause into lost writes.
func nfsMountOptions() []string { return []string{"nfsvers=4.1", "hard", "noatime"} }

func exported(part, p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" {
		return fmt.Errorf("%s: export %q: want an absolute path on the server, e.g. /export/k3s", part, p)
	}
	return nil
}

// Share is a folder of an NFS server that is mounted as it is: data sets, models.
type Share struct {
	Name         string // of the claim in the namespace
	Export       string // absolute path on the server
	ReadOnly     bool
	MountOptions []string // default as [NFSOptions.MountOptions]
}

// Shares returns a volume and a claim for each share, for pods of one namespace,
// which must be there. They need the part "nfs". The volumes belong to these claims
// alone, and nothing on the server is ever deleted.
func Shares(namespace, server string, shares []Share) ([]runtime.Object, error) {
	if err := need("NFS shares", "namespace", namespace, "server", server); err != nil {
		return nil, err
	}
	var objects []runtime.Object
	var errs []error
	var names []string
	for _, s := range shares {
		if problems := validation.IsDNS1123Label(s.Name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("NFS share %q: %s", s.Name, problems[0]))
		}
		if slices.Contains(names, s.Name) {
			errs = append(errs, fmt.Errorf("NFS share %s: there are two of this name", s.Name))
		}
		if err := exported("NFS share "+s.Name, s.Export); err != nil {
			errs = append(errs, err)
		}
		names = append(names, s.Name)
		objects = append(objects, shareVolume(namespace, server, s), shareClaim(namespace, s))
	}
	return objects, errors.Join(errs...)
}

// ShareClaim returns the name of the claim of a share.
func ShareClaim(share string) string { return "share-" + share }

func shareModes(s Share) []corev1.PersistentVolumeAccessMode {
	if s.ReadOnly {
		return []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	}
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

// shareSize: an NFS folder has none, and Kubernetes wants one on both sides.
func shareSize() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
}

func shareVolume(namespace, server string, s Share) *corev1.PersistentVolume {
	if s.MountOptions == nil {
		s.MountOptions = nfsMountOptions()
	}
	name := namespace + "-" + ShareClaim(s.Name)
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: meta("nfs-share", "", name),
		Spec: corev1.PersistentVolumeSpec{
			Capacity: shareSize(), AccessModes: shareModes(s),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			MountOptions:                  s.MountOptions,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: ShareClaim(s.Name)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: nfsDriver,
				// The handle tells volumes apart on a node: two of one handle are one mount.
				VolumeHandle:     strings.Join([]string{server, strings.Trim(s.Export, "/"), name}, "#"),
				ReadOnly:         s.ReadOnly,
				VolumeAttributes: map[string]string{"server": server, "share": s.Export},
			}},
		},
	}
}

func shareClaim(namespace string, s Share) *corev1.PersistentVolumeClaim {
	none := "" // no class: no provisioner may answer this claim
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta("nfs-share", namespace, ShareClaim(s.Name)),
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &none, VolumeName: namespace + "-" + ShareClaim(s.Name), AccessModes: shareModes(s),
			Resources: corev1.VolumeResourceRequirements{Requests: shareSize()},
		},
	}
}
