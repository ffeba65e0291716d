package addon

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Longhorn provides a class of volumes that are replicated to several nodes, and that any node
// can mount.
type Longhorn struct{ *spec.Longhorn }

func (l Longhorn) Info() Info {
	return Info{
		Name: "longhorn", Section: "storage.longhorn", On: l.Longhorn != nil,
		Shared:      true,
		NeverInArgo: "its check before an upgrade would run at the first sync, before the account that it needs",
		Namespace:   "longhorn-system",
		Chart: chart.Pin{
			Chart: "longhorn", Repo: "https://charts.longhorn.io",
			Version: "1.13.0", App: "v1.13.0", Kubernetes: ">=1.34.0-0", Compared: "2026-09-29",
			Source: "pinned and Kubernetes: release notes of 2026-09-29, second hand; read: 1.12.1 of 2026-08-14, whose Chart.yaml says >=1.25",
			// kubeVersion of its chart at v1.10.1, v1.11.0, v1.12.1; 1.13 second hand.
			Lines: []chart.Line{
				{Minor: "1.13", Kubernetes: ">=1.34.0-0"},
				{Minor: "1.12", Kubernetes: ">=1.25.0-0"},
				{Minor: "1.11", Kubernetes: ">=1.25.0-0"},
				{Minor: "1.10", Kubernetes: ">=1.25.0-0"},
			},
		},
		// What it guarantees its instance manager (setting guaranteed-instance-manager-cpu).
		CPUShare: 0.12,
		// An iSCSI initiator, an NFS client for volumes with several writers, and a multipath daemon
		// that ignores Longhorn's disks. Otherwise it claims them, and no volume can be mounted.
		Host: Host{
			Packages: []string{"open-iscsi", "nfs-common"},
			Modules:  []string{"iscsi_tcp", "dm_crypt"},
			Files:    map[string]string{"/etc/multipath/conf.d/longhorn.conf": "blacklist {\n    devnode \"^sd[a-z0-9]+\"\n}\n"},
		},
	}
}

func (l Longhorn) Make(s *Site) (Recipe, error) {
	if err := l.check(max(1, len(s.Nodes))); err != nil {
		return Recipe{}, err
	}
	sidecars := s.replicas(2)
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
			"nodeDrainPolicy":                     l.DrainPolicy,
			"defaultReplicaCount":                 l.Replicas,
			"defaultDataPath":                     l.DataPath,
			"storageOverProvisioningPercentage":   100, // no more than a disk has is promised
			"allowCollectingLonghornUsageMetrics": false,
			"upgradeChecker":                      false,
		},
	}
	parameters := map[string]string{
		"numberOfReplicas":    fmt.Sprint(l.Replicas),
		"staleReplicaTimeout": "30", // minutes
		"fsType":              "ext4",
		// Keep a copy on the pod's own node if there is room, so that reads stay local.
		"dataLocality": "best-effort",
	}
	if taints := longhornTaints(s.Taints()); taints != "" {
		// Pods of the chart, and pods that Longhorn creates itself, whose taints are written
		// as text.
		s.tolerate(v, []string{"global"})
		set(v, taints, "defaultSettings", "taintToleration")
		parameters["shareManagerTolerations"] = taints
	}
	r := s.release(l.Info(), v)
	sc := class{part: "longhorn", name: l.Class, provisioner: "driver.longhorn.io", retain: true, expand: true, parameters: parameters}
	return sc.piece(s, chart.Part{Release: r, NamespaceLabels: privilegedLabels(), Keep: true}), nil
}

func (l Longhorn) check(nodes int) error {
	switch {
	case !strings.HasPrefix(l.DataPath, "/") || l.DataPath == "/":
		return fmt.Errorf("longhorn: data path %q: want an absolute path below /", l.DataPath)
	case l.Replicas < 1 || l.Replicas > 20:
		return fmt.Errorf("longhorn: %d replicas: want 1 to 20", l.Replicas)
	case l.Replicas > nodes:
		return fmt.Errorf("longhorn: %d copies of each volume on %d nodes: every volume would stay degraded; ask for %d", l.Replicas, nodes, nodes)
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
