package check

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/nvidia"
)

// Tolerations returns the tolerations of pods that run on nodes with GPUs: of the taint that keeps
// other pods off them, and of further taints of these nodes.
func Tolerations(taints ...corev1.Taint) []corev1.Toleration {
	all := []corev1.Toleration{{Key: nvidia.TaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	for _, t := range taints {
		if t.Key == nvidia.TaintKey && t.Effect == corev1.TaintEffectNoSchedule {
			continue
		}
		one := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
		if t.Value == "" {
			one.Operator = corev1.TolerationOpExists
		}
		all = append(all, one)
	}
	return all
}
