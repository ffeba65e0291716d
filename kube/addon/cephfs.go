package addon

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const cephFSDriver = "cephfs.csi.ceph.com"

// CephFSOptions name the Ceph cluster of the volumes.
type CephFSOptions struct {
	Common
	Class     string   // of storage; default "cephfs"
	ClusterID string   // the cluster's fsid
	Monitors  []string // addresses, with the port if it is not the default
	FSName    string   // of the file system
	Pool      string   // for data; empty: the file system's first
	User      string   // without "client."
	Key       secret.Value
	Delete    bool // a volume is deleted with its claim; default: it stays
	Default   bool // the class of claims that name none
}

// CephFSHost is what nodes need to mount CephFS with the kernel's client.
func CephFSHost() Host { return Host{Packages: []string{"ceph-common"}, Modules: []string{"ceph"}} }

// CephFS provides a class of volumes that are folders of a Ceph file system, with
// quotas, and that many pods can write at once.
func CephFS(o CephFSOptions) (chart.Part, error) {
	if o.Class == "" {
		o.Class = "cephfs"
	}
	if err := o.check(); err != nil {
		return chart.Part{}, err
	}
	const namespace, name = "ceph-csi", "csi-cephfs-secret"
	v := values{
		"csiConfig":   []any{values{"clusterID": o.ClusterID, "monitors": o.Monitors}},
		"provisioner": values{"replicaCount": o.few(2)},
		// Every node mounts, whatever its taints.
		"nodeplugin": values{"tolerations": everywhere()},
	}
	o.tolerate(v, []string{"provisioner"})
	r, err := o.release("cephfs", namespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	parameters := map[string]string{"clusterID": o.ClusterID, "fsName": o.FSName}
	if o.Pool != "" {
		parameters["pool"] = o.Pool
	}
	for _, use := range []string{"provisioner", "controller-expand", "node-stage"} {
		parameters["csi.storage.k8s.io/"+use+"-secret-name"] = name
		parameters["csi.storage.k8s.io/"+use+"-secret-namespace"] = namespace
	}
	sc := class{part: "cephfs", name: o.Class, provisioner: cephFSDriver, isDefault: o.Default,
		retain: !o.Delete, expand: true, parameters: parameters}
	user := secret.New(o.User)
	return chart.Part{
		Name: "cephfs", Release: r, NamespaceLabels: privileged(),
		// The driver reads admin* for volumes that it creates, user* for existing ones.
		Secrets: []chart.Secret{{Namespace: namespace, Name: name, Data: map[string]secret.Value{
			"adminID": user, "adminKey": o.Key, "userID": user, "userKey": o.Key}}},
		After: []runtime.Object{sc.object()}, Keep: true, Classes: []string{o.Class},
	}, nil
}

func (o CephFSOptions) check() error {
	errs := []error{need("cephfs", "cluster id", o.ClusterID, "file system name", o.FSName, "user", o.User)}
	if o.Key.IsZero() {
		errs = append(errs, errors.New("cephfs: the user's key is not set"))
	}
	if strings.HasPrefix(o.User, "client.") {
		errs = append(errs, fmt.Errorf("cephfs: user %q: leave \"client.\" out", o.User))
	}
	if len(o.Monitors) == 0 {
		errs = append(errs, errors.New("cephfs: no monitors: name the addresses that `ceph mon dump` shows"))
	}
	for _, m := range o.Monitors {
		_, addrErr := netip.ParseAddr(m)
		_, portErr := netip.ParseAddrPort(m)
		if addrErr != nil && portErr != nil && strings.ContainsAny(m, "/ ,") {
			errs = append(errs, fmt.Errorf("cephfs: monitor %q: want an address, or address:port", m))
		}
	}
	return errors.Join(errs...)
}
