package addon

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Scratch provides a class of volumes on a disk of the node that the pod runs on: as fast as
// the disk, without quota, and lost with the node. It is a second provisioner beside K3s' own,
// whose configuration K3s overwrites at each start.
//
// A class whose folder is missing from its provisioner's table looks fine and never
// provisions. Here the table names each node, and refuses all others. The class limits the
// scheduler to the same nodes, because otherwise it would offer a refused node again and
// again. That list is immutable: with other nodes the class is recreated, which does not
// affect its volumes.
type Scratch struct{ *spec.Scratch }

func (x Scratch) Info() Info {
	return Info{
		Name: "scratch", Section: "storage.scratch", On: x.Scratch != nil,
		Namespace: "scratch",
		Chart: chart.Pin{
			Chart: "local-path-provisioner", Repo: "oci://ghcr.io/rancher/local-path-provisioner/charts",
			Version: "0.0.37", App: "v0.0.37", Kubernetes: ">=1.12.0-0", Compared: "2026-08-05",
			Source: "pinned and read: v0.0.37 of 2026-08-05, Chart.yaml; the project pushes its chart there (.github/workflows/helm-release.yml)",
		},
	}
}

func (x Scratch) Make(s *Site) (Recipe, error) {
	switch p := x.Path; {
	case len(x.Nodes) == 0:
		return Recipe{}, errors.New("scratch: no node has a scratch disk: name the nodes, or leave scratch out")
	case !strings.HasPrefix(p, "/") || path.Clean(p) == "/" || path.Clean(p) != p:
		return Recipe{}, fmt.Errorf("scratch: folder %q: want an absolute path below /, e.g. /scratch", p)
	}
	const provisioner = "homelab.cps-gpu.github.com/scratch"
	nodes := slices.Sorted(slices.Values(x.Nodes))
	table := []any{values{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": []any{}}}
	for _, n := range nodes {
		table = append(table, values{"node": n, "paths": []any{x.Path}})
	}
	v := values{
		"nameOverride": "scratch",
		// The class is ours, see [class].
		"storageClass": values{"create": false, "provisionerName": provisioner},
		"nodePathMap":  table,
		"configmap":    values{"name": "scratch-config"},
		"helperImage":  values{"repository": busybox, "tag": busyboxVersion}, // which is "latest" in the chart
	}
	s.tolerate(v, nil, []string{"configmap", "helperPod"})
	r := s.release(x.Info(), v)
	sc := class{
		part: "scratch", name: x.Class, provisioner: provisioner, nodes: nodes, wait: true,
		// Folders that a person can read. The provisioner (0.0.37, provisioner.go,
		// pathFromPattern) refuses a pattern that does not begin with namespace, claim
		// and a slash.
		parameters: map[string]string{"pathPattern": "{{ .PVC.Namespace }}/{{ .PVC.Name }}/{{ .PVName }}"},
		// Volumes of this kind get the pod's group (fsGroup), and Velero can read them;
		// neither is true of the chart's default, hostPath. K3s' own provisioner does the
		// same.
		annotations: map[string]string{"defaultVolumeType": "local"},
	}
	return sc.piece(s, chart.Part{Release: r, NamespaceLabels: privilegedLabels()}), nil
}
