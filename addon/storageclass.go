package addon

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube/chart"
)

// defaultAnnotation makes a class the one of claims that name none.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// K3sClass is the storage class that K3s brings, and makes the default, unless it is
// started with --disable=local-storage.
const K3sClass = "local-path"

// LocalStorage says whether K3s must run without its own storage class, given the
// one that is to be the default; empty means K3s' own. The class cannot just stop
// being the default: K3s applies its manifest again at every start of a server.
func LocalStorage(defaultClass string) (disable bool, why string) {
	if defaultClass == "" || defaultClass == K3sClass {
		return false, ""
	}
	return true, fmt.Sprintf("K3s makes %s the default storage class at every start, and %s is to be the only default: "+
		"K3s must run with disable: [local-storage]", K3sClass, defaultClass)
}

// Defaults returns the classes of parts that are made the default. More than one
// is a mistake: Kubernetes takes the youngest.
func Defaults(parts ...chart.Part) []string {
	var names []string
	for _, p := range parts {
		for _, o := range p.After {
			if sc, ok := o.(*storagev1.StorageClass); ok && sc.Annotations[defaultAnnotation] == "true" {
				names = append(names, sc.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// class is what our storage classes differ in.
type class struct {
	part, name, provisioner string
	isDefault               bool
	retain                  bool
	expand                  bool
	wait                    bool // a volume is made where its first pod runs
	parameters              map[string]string
	annotations             map[string]string // that its provisioner reads
	mountOptions            []string
}

func (c class) object() *storagev1.StorageClass {
	reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if c.retain {
		reclaim = corev1.PersistentVolumeReclaimRetain
	}
	if c.wait {
		binding = storagev1.VolumeBindingWaitForFirstConsumer
	}
	m := meta(c.part, "", c.name)
	// "false" is set too: a class that was the default stops being it.
	m.Annotations = map[string]string{defaultAnnotation: fmt.Sprint(c.isDefault)}
	maps.Copy(m.Annotations, c.annotations)
	return &storagev1.StorageClass{
		TypeMeta:             metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:           m,
		Provisioner:          c.provisioner,
		Parameters:           c.parameters,
		ReclaimPolicy:        &reclaim,
		MountOptions:         c.mountOptions,
		AllowVolumeExpansion: &c.expand,
		VolumeBindingMode:    &binding,
	}
}
