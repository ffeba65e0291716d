package check

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/nvidia"
)

//go:embed isolation.sh
var isolationScript string

// Ask is how a container asks for GPUs.
type Ask string

// The ways to ask.
const (
	AskOne     Ask = "one"     // it requests one of the resource, as a pod should
	AskNothing Ask = "nothing" // it requests none, in the default runtime
	// AskRuntime is a container that requests none, and asks NVIDIA's runtime for all GPUs by its environment,
	// past Kubernetes (NVIDIA/nvidia-container-toolkit: NVIDIA_VISIBLE_DEVICES).
	AskRuntime Ask = "runtime"
	// AskMore is a container that requests one, and asks the runtime for all: its own variable wins over the
	// device plugin's (kubernetes: pkg/kubelet/kubelet_pods.go, GenerateRunContainerOptions).
	AskMore Ask = "more"
)

// Greedy reports whether the container asks NVIDIA's runtime itself, past Kubernetes.
func (a Ask) Greedy() bool { return a == AskRuntime || a == AskMore }

// Want is how many GPUs such a container may see.
func (a Ask) Want() int {
	if a == AskOne || a == AskMore {
		return 1
	}
	return 0
}

// IsolationName is the name of the Job of [IsolationObjects].
func IsolationName(node string, a Ask, runID string) string {
	return Name(node, "isolation-"+string(a), runID)
}

// IsolationObjects returns a Job that counts the GPUs that a container on a node sees. Its last words are for
// [ParseIsolation].
func IsolationObjects(node string, a Ask, o VerifyOptions) []runtime.Object {
	objects := job(node, "isolation-"+string(a), 1, o)
	objects[0].(*corev1.ConfigMap).Data = map[string]string{"isolation.sh": isolationScript}
	j := objects[1].(*batchv1.Job)
	pod := &j.Spec.Template.Spec
	c := &pod.Containers[0]
	c.Command = []string{"sh", "/check/isolation.sh"}
	if o.Resource != "" {
		c.Resources.Limits = corev1.ResourceList{o.Resource: c.Resources.Limits[nvidia.Resource]}
	}
	all := []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
	switch a {
	case AskNothing:
		pod.RuntimeClassName, c.Resources = nil, corev1.ResourceRequirements{}
	case AskRuntime:
		c.Resources, c.Env = corev1.ResourceRequirements{}, all
	case AskMore:
		c.Env = all
	}
	return objects
}

// ParseIsolation reads how many GPUs a container saw.
func ParseIsolation(words string) (int, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(words), "sees|")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("the container left no count of GPUs, but %q", words)
	}
	return n, nil
}
