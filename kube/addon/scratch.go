package addon

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
)

// scratchLabel is the label of nodes with scratch storage, with the value "true", if
// [ScratchOptions.ByLabel] is set.
const scratchLabel = "homelab.cps-gpu.github.com/scratch"

// ScratchOptions name the nodes that have fast storage of their own, and where it is.
type ScratchOptions struct {
	Common
	Class   string            // of storage; default "scratch"
	Paths   map[string]string // by node name: the folder in which volumes are created
	ByLabel bool              // pods run on nodes labelled homelab.cps-gpu.github.com/scratch=true, not to those named in Paths
	Default bool              // the class of claims that name none; rarely useful: volumes are lost with their node
}

// Scratch provides a class of volumes on a disk of the node that the pod runs on: as fast as
// the disk, without quota, and lost with the node. It is a second provisioner beside K3s' own,
// whose configuration K3s overwrites at each start.
//
// A class whose folder is missing from its provisioner's table looks fine and never
// provisions. Here the table names each node, and refuses all others. The class limits the
// scheduler to the same nodes, because otherwise it would offer a refused node again and
// again. That list is immutable: with other nodes the class is recreated, which does not
// affect its volumes. To label nodes instead, set ByLabel.
func Scratch(o ScratchOptions) (chart.Part, error) {
	if o.Class == "" {
		o.Class = "scratch"
	}
	if err := o.check(); err != nil {
		return chart.Part{}, err
	}
	const provisioner = "homelab.cps-gpu.github.com/scratch"
	nodes := slices.Sorted(maps.Keys(o.Paths))
	table := []any{values{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": []any{}}}
	for _, n := range nodes {
		table = append(table, values{"node": n, "paths": []any{o.Paths[n]}})
	}
	v := values{
		"nameOverride": "scratch",
		// The class is ours, see [class].
		"storageClass": values{"create": false, "provisionerName": provisioner},
		"nodePathMap":  table,
		"configmap":    values{"name": "scratch-config"},
		"helperImage":  values{"repository": busybox, "tag": busyboxVersion}, // which is "latest" in the chart
	}
	o.tolerate(v, nil, []string{"configmap", "helperPod"})
	r, err := o.release("scratch", "scratch", v)
	if err != nil {
		return chart.Part{}, err
	}
	sc := class{
		part: "scratch", name: o.Class, provisioner: provisioner, isDefault: o.Default, wait: true,
		// Folders that a person can read. The provisioner (0.0.37, provisioner.go,
		// pathFromPattern) refuses a pattern that does not begin with namespace, claim
		// and a slash.
		parameters: map[string]string{"pathPattern": "{{ .PVC.Namespace }}/{{ .PVC.Name }}/{{ .PVName }}"},
		// Volumes of this kind get the pod's group (fsGroup), and Velero can read them;
		// neither is true of the chart's default, hostPath. K3s' own provisioner does the
		// same.
		annotations: map[string]string{"defaultVolumeType": "local"},
	}.object()
	sc.AllowedTopologies = o.topologies(nodes)
	return chart.Part{
		Name: "scratch", Release: r, NamespaceLabels: privileged(),
		After: []runtime.Object{sc}, Classes: []string{o.Class},
	}, nil
}

func (o ScratchOptions) topologies(nodes []string) []corev1.TopologySelectorTerm {
	req := corev1.TopologySelectorLabelRequirement{Key: corev1.LabelHostname, Values: nodes}
	if o.ByLabel {
		req = corev1.TopologySelectorLabelRequirement{Key: scratchLabel, Values: []string{"true"}}
	}
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{req}}}
}

func (o ScratchOptions) check() error {
	var errs []error
	if len(o.Paths) == 0 {
		errs = append(errs, errors.New("scratch: no node has a scratch disk: name the nodes, or leave scratch out"))
	}
	for _, n := range slices.Sorted(maps.Keys(o.Paths)) {
		p := o.Paths[n]
		if !strings.HasPrefix(p, "/") || path.Clean(p) == "/" || path.Clean(p) != p {
			errs = append(errs, fmt.Errorf("scratch: folder %q of node %s: want an absolute path below /, e.g. /scratch", p, n))
		}
	}
	return errors.Join(errs...)
}
