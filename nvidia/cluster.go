package nvidia

import (
	corev1 "k8s.io/api/core/v1"
)

// What GPUs are called in Kubernetes. These names are declared here and nowhere
// else; whatever is deployed takes them from here.
const (
	Resource     = corev1.ResourceName("nvidia.com/gpu") // what a container requests
	LabelPresent = "nvidia.com/gpu.present"              // set to "true" on nodes with a GPU; device plugins look for it
	RuntimeClass = "nvidia"                              // made by K3s itself; the default runtime sees no GPU
	taintKey     = "nvidia.com/gpu"
	taintValue   = "present" // the one that NVIDIA's and NFD's DaemonSets tolerate
)

// Labels are what a node with a GPU carries.
func Labels() map[string]string { return map[string]string{LabelPresent: "true"} }

// Taint keeps what needs no GPU off the nodes that have one.
func Taint() corev1.Taint {
	return corev1.Taint{Key: taintKey, Value: taintValue, Effect: corev1.TaintEffectNoSchedule}
}

// Tolerations are for whatever should run on a node with a GPU: of [Taint], and
// of each further taint that such nodes carry.
func Tolerations(taints ...corev1.Taint) []corev1.Toleration {
	all := []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	for _, t := range taints {
		if t.Key == taintKey && t.Effect == corev1.TaintEffectNoSchedule {
			continue
		}
		all = append(all, tolerate(t))
	}
	return all
}

func tolerate(t corev1.Taint) corev1.Toleration {
	if t.Value == "" {
		return corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect}
	}
	return corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
}
