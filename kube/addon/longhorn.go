package addon

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
)

// DrainPolicies are Longhorn's policies for draining a node that has the last healthy copy of
// a volume; the first is the default. They are the options of defaultSettings.nodeDrainPolicy
// in questions.yaml of its chart, read at 1.12.1. Longhorn silently ignores any other value,
// and then a drain may never end.
func DrainPolicies() []string {
	return []string{
		"block-if-contains-last-replica",
		"allow-if-replica-is-stopped",
		"always-allow",
		"block-for-eviction",
		"block-for-eviction-if-contains-last-replica",
	}
}

// LonghornOptions configure how volumes are replicated on the nodes' disks.
type LonghornOptions struct {
	Common
	Class         string // of storage; default "longhorn"
	Replicas      int    // copies of each volume; default 3, or the number of data nodes
	DataNodes     int    // nodes that hold data; default Common.Nodes
	OnlyLabelled  bool   // only nodes with the label node.longhorn.io/create-default-disk hold data; default: all
	DataPath      string // on the nodes; default /var/lib/longhorn
	DrainPolicy   string // one of [DrainPolicies]
	Delete        bool   // a volume goes with its claim; default: it stays
	Default       bool   // the class of claims that name none
	Overprovision int    // percent of a disk that may be promised; default 100
}

// LonghornHost is what nodes need for Longhorn's volumes: an iSCSI initiator, an NFS client
// for volumes with several writers, and a multipath daemon that ignores Longhorn's disks.
// Otherwise it claims them, and no volume can be mounted.
func LonghornHost() Host {
	return Host{
		Packages: []string{"open-iscsi", "nfs-common"},
		Modules:  []string{"iscsi_tcp", "dm_crypt"},
		Units:    []string{"iscsid.service"},
		Files:    map[string]string{"/etc/multipath/conf.d/longhorn.conf": "blacklist {\n    devnode \"^sd[a-z0-9]+\"\n}\n"},
	}
}

// Longhorn provides a class of volumes that are replicated to several nodes, and that any node
// can mount.
func Longhorn(o LonghornOptions) (chart.Part, error) {
	if err := o.fill(); err != nil {
		return chart.Part{}, err
	}
	sidecars := o.few(2)
	v := values{
		// The class is ours, see [class]. Older versions, which do not know
		// createStorageClass, must not make their class the default.
		"persistence": values{"createStorageClass": false, "defaultClass": false},
		"csi": values{
			"attacherReplicaCount": sidecars, "provisionerReplicaCount": sidecars,
			"resizerReplicaCount": sidecars, "snapshotterReplicaCount": sidecars,
		},
		"longhornUI": values{"replicas": 1},
		"defaultSettings": values{
			"nodeDrainPolicy":                     o.DrainPolicy,
			"defaultReplicaCount":                 o.Replicas,
			"defaultDataPath":                     o.DataPath,
			"storageOverProvisioningPercentage":   o.Overprovision,
			"allowCollectingLonghornUsageMetrics": false,
			"upgradeChecker":                      false,
		},
	}
	if o.OnlyLabelled {
		set(v, true, "defaultSettings", "createDefaultDiskLabeledNodes")
	}
	taints := longhornTaints(o.Taints)
	if taints != "" {
		// Pods of the chart, and pods that Longhorn creates itself, whose taints are written
		// as text.
		o.tolerate(v, []string{"global"})
		set(v, taints, "defaultSettings", "taintToleration")
	}
	r, err := o.release("longhorn", "longhorn-system", v)
	if err != nil {
		return chart.Part{}, err
	}
	parameters := map[string]string{
		"numberOfReplicas":    fmt.Sprint(o.Replicas),
		"staleReplicaTimeout": "30", // minutes
		"fsType":              "ext4",
		// Keep a copy on the pod's own node if there is room, so that reads stay local.
		"dataLocality": "best-effort",
	}
	if taints != "" {
		parameters["shareManagerTolerations"] = taints
	}
	sc := class{part: "longhorn", name: o.Class, provisioner: "driver.longhorn.io", isDefault: o.Default,
		retain: !o.Delete, expand: true, parameters: parameters}
	return chart.Part{
		Name: "longhorn", Release: r, NamespaceLabels: privileged(),
		After: []runtime.Object{sc.object()}, Keep: true, Classes: []string{o.Class},
	}, nil
}

func (o *LonghornOptions) fill() error {
	if o.Class == "" {
		o.Class = "longhorn"
	}
	if o.DataPath == "" {
		o.DataPath = "/var/lib/longhorn"
	}
	if o.DataNodes == 0 {
		o.DataNodes = max(1, o.Nodes)
	}
	if o.Replicas == 0 {
		o.Replicas = min(3, o.DataNodes)
	}
	if o.DrainPolicy == "" {
		o.DrainPolicy = DrainPolicies()[0]
	}
	if o.Overprovision == 0 {
		o.Overprovision = 100
	}
	switch {
	case !slices.Contains(DrainPolicies(), o.DrainPolicy):
		return fmt.Errorf("longhorn: drain policy %q: want one of %s", o.DrainPolicy, strings.Join(DrainPolicies(), ", "))
	case !strings.HasPrefix(o.DataPath, "/") || o.DataPath == "/":
		return fmt.Errorf("longhorn: data path %q: want an absolute path below /", o.DataPath)
	case o.Replicas < 1 || o.Replicas > 20:
		return fmt.Errorf("longhorn: %d replicas: want 1 to 20", o.Replicas)
	case o.Replicas > o.DataNodes:
		return fmt.Errorf("longhorn: %d copies of each volume on %d nodes that hold data: every volume would stay degraded; ask for %d",
			o.Replicas, o.DataNodes, o.DataNodes)
	}
	return nil
}

// longhornTaints writes taints in the form of kubectl taint, which Longhorn's settings use for
// tolerations.
func longhornTaints(taints []corev1.Taint) string {
	var all []string
	for _, t := range Tolerations(taints) {
		one := t.Key
		if t.Value != "" {
			one += "=" + t.Value
		}
		all = append(all, one+":"+string(t.Effect))
	}
	return strings.Join(all, ";")
}
