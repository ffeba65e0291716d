package gpuoperator_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/gpuoperator"
)

// On nodes that have their driver, the operator brings what offers the GPUs.
func Example() {
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "cluster-policy"},
		"spec": map[string]any{
			"driver":       map[string]any{"enabled": false},
			"devicePlugin": map[string]any{"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin", "version": "v0.20.0"},
		},
	}}
	for _, u := range gpuoperator.NewPolicy(policy, "gpu-operator").Objects() {
		fmt.Println(u.GetKind(), u.GetName())
	}
	// Output:
	// RuntimeClass nvidia
	// DaemonSet nvidia-device-plugin-daemonset
	// DaemonSet nvidia-operator-validator
}
