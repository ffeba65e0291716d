package addon

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube/chart"
)

// defaultAnnotation makes a class the default.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// ClassesOf selects the storage classes of a part. Helm writes its own name into [ownerLabel].
func ClassesOf(part string) string { return projectLabel + "=homelab," + nameLabel + "=" + part }

// class has the settings in which our storage classes differ.
type class struct {
	part, name, provisioner string
	mode                    corev1.PersistentVolumeAccessMode // in which its volumes are tested
	nodes                   []string                          // that have it, if its volumes stay on their node; empty: all
	retain                  bool
	expand                  bool
	wait                    bool // a volume is created where its first pod runs
	parameters              map[string]string
	annotations             map[string]string // that its provisioner reads
	mountOptions            []string
}

// piece is a part that provides the class.
func (c class) piece(s *Site, p chart.Part) Recipe {
	p.Name = c.part
	out := Recipe{Part: p}
	out.provide(s, c)
	return out
}

// provide adds a class to a part.
func (p *Recipe) provide(s *Site, c class) {
	p.Classes, p.After = append(p.Classes, c.name), append(p.After, c.object(s))
	probe := Probe{Class: c.name, Mode: c.mode, Local: c.wait, Nodes: c.nodes, Tolerations: Tolerations(s.Taints())}
	if len(probe.Nodes) == 0 {
		for _, n := range s.Nodes {
			probe.Nodes = append(probe.Nodes, n.Name)
		}
	}
	p.Probes = append(p.Probes, probe)
}

func (c class) object(s *Site) *storagev1.StorageClass {
	reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if c.retain {
		reclaim = corev1.PersistentVolumeReclaimRetain
	}
	if c.wait {
		binding = storagev1.VolumeBindingWaitForFirstConsumer
	}
	m := meta(c.part, "", c.name)
	// "false" is set too: a class that was the default stops being it.
	m.Annotations = map[string]string{defaultAnnotation: fmt.Sprint(c.name == s.DefaultClass)}
	maps.Copy(m.Annotations, c.annotations)
	out := &storagev1.StorageClass{
		TypeMeta:             metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:           m,
		Provisioner:          c.provisioner,
		Parameters:           c.parameters,
		ReclaimPolicy:        &reclaim,
		MountOptions:         c.mountOptions,
		AllowVolumeExpansion: &c.expand,
		VolumeBindingMode:    &binding,
	}
	if len(c.nodes) > 0 {
		out.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelHostname, Values: c.nodes}}}}
	}
	return out
}
