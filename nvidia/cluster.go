package nvidia

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Names of GPUs in Kubernetes. They are declared only here; everything that is deployed uses
// these.
const (
	Resource     = corev1.ResourceName("nvidia.com/gpu") // what a container requests
	LabelPresent = "nvidia.com/gpu.present"              // set to "true" on nodes with a GPU; device plugins look for it
	// LabelConfig names the configuration of a node's device plugin, where the GPU operator deploys
	// it (NVIDIA/k8s-device-plugin, cmd/config-manager, v0.20.0).
	LabelConfig  = "nvidia.com/device-plugin.config"
	RuntimeClass = "nvidia" // made by K3s itself; the default runtime sees no GPU
	taintKey     = "nvidia.com/gpu"
	taintValue   = "present" // the one that NVIDIA's and NFD's DaemonSets tolerate
)

// MIGResource is what a container requests for an instance of a profile, where a node's GPUs are
// not all divided alike. A plus sign may not be in such a name (k8s-device-plugin, rm.go).
func MIGResource(profile string) string {
	return "nvidia.com/mig-" + strings.ReplaceAll(profile, "+", ".")
}

// Labels are the labels of a node with a GPU.
func Labels() map[string]string { return map[string]string{LabelPresent: "true"} }

// Taint keeps pods without GPUs off nodes with GPUs.
func Taint() corev1.Taint {
	return corev1.Taint{Key: taintKey, Value: taintValue, Effect: corev1.TaintEffectNoSchedule}
}

// Tolerations returns the tolerations of pods that run on nodes with GPUs: of [Taint], and of
// further taints of these nodes.
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
