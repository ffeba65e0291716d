package addon

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultAnnotation makes a class the default.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// class has the settings in which our storage classes differ.
type class struct {
	part, name, provisioner string
	isDefault               bool
	retain                  bool
	expand                  bool
	wait                    bool // a volume is created where its first pod runs
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
