package addon

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
)

const nfsDriver = "nfs.csi.k8s.io"

// NFSOptions name the NFS server of the volumes.
type NFSOptions struct {
	Common
	Class        string   // of storage; default "nfs"
	Server       string   // address or name
	Export       string   // absolute path on the server; volumes are folders of it
	MountOptions []string // default [NFSMountOptions]
	Delete       bool     // a volume and its folder are deleted with the claim; default: both stay
	Default      bool     // the class of claims that name none
}

// NFS provides a class of volumes that are folders on an NFS server, named after the
// claim: <namespace>/<claim>-<volume>. A claim recreated under its old name gets a
// new folder; the old one stays beside it.
func NFS(o NFSOptions) (chart.Part, error) {
	if o.Class == "" {
		o.Class = "nfs"
	}
	if o.MountOptions == nil {
		o.MountOptions = NFSMountOptions()
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
		// If a server is lost, the controller's other replica continues.
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
			// The folder's mode. Pods run as various users; the claim decides who may mount it.
			"mountPermissions": "0777",
		},
		mountOptions: o.MountOptions,
	}
	return chart.Part{Name: "nfs", Release: r, After: []runtime.Object{sc.object()}, Keep: true, Classes: []string{o.Class}}, nil
}

// NFSMountOptions are those of volumes whose options nobody has written. Of NFS 4 the mount takes
// the newest that the server has, 4.2 first (nfs-utils, stropts.c, nfs_autonegotiate): many a NAS
// has 4.1 at most. With a soft mount, a pause of the server would lose writes.
func NFSMountOptions() []string { return []string{"nfsvers=4", "hard", "noatime"} }

func exported(part, p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" {
		return fmt.Errorf("%s: export %q: want an absolute path on the server, e.g. /export/k3s", part, p)
	}
	return nil
}
