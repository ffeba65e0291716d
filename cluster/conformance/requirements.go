package conformance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The minor versions of Kubernetes for which the programme has a list.
const (
	oldest = 33
	newest = 36
)

// listFor is the list that applies to a version of Kubernetes. For one that is newer than all lists, that
// is the newest.
func listFor(version string) (int, error) {
	_, rest, _ := strings.Cut(version, ".")
	text, _, _ := strings.Cut(rest, ".")
	minor, err := strconv.Atoi(text)
	if err != nil || !strings.HasPrefix(version, "v1.") {
		return 0, fmt.Errorf("the API server says that it is version %q, which is not one of Kubernetes", version)
	}
	if minor < oldest {
		return 0, fmt.Errorf("Kubernetes %s: the requirements begin with 1.%d\n  upgrade with homelab k3s:upgrade", version, oldest) //nolint:staticcheck // a name
	}
	return min(minor, newest), nil
}

// isolationID is the requirement that only pods can show.
const isolationID = "secure_accelerator_access"

// requirement is one of the programme's: names and levels are those of docs/AIConformance-1.33.yaml to
// -1.36.yaml of cncf/k8s-ai-conformance at b2c8969, 2026-08-19.
type requirement struct {
	id, area string
	levels   [newest - oldest + 1]Level // by version of Kubernetes; empty: not in that list
	text     string
	check    func(c *cluster, ctx context.Context) (Finding, error)
}

func requirements() []requirement {
	always := [...]Level{Must, Must, Must, Must}
	since35 := [...]Level{"", "", Should, Should}
	since36 := [...]Level{"", "", "", Should}
	return []requirement{
		{"dra_support", "accelerators", [...]Level{Should, Must, Must, ""}, "The API of Dynamic Resource Allocation is served.", (*cluster).dra},
		{"driver_runtime_management", "accelerators", since35, "One can verify that drivers and container runtime of nodes with accelerators fit and stay so.", (*cluster).drivers},
		{"gpu_sharing", "accelerators", since35, "Pods can get a part of a GPU: by instances, or by sharing in software.", (*cluster).sharing},
		{"virtualized_accelerator", "accelerators", since35, "Virtual accelerators (vGPU) are offered like parts of physical ones.", (*cluster).virtual},
		{"ai_inference", "networking", always, "The Gateway API has an implementation that splits traffic by weight and routes it by headers.", (*cluster).gateway},
		{"advanced_inference_ingress", "networking", since36, "The Gateway API's Inference Extension routes requests to models by their state.", (*cluster).inferencePool},
		{"high_performance_networking", "networking", since36, "If pods need fast networks: these are discoverable and attachable, by DRA.", (*cluster).fastNetwork},
		{"disaggregated_inference", "networking", since36, "A model can be served by separate instances for prefill and decode.", (*cluster).prefillAndDecode},
		{"gang_scheduling", "schedulingOrchestration", always, "A gang scheduler runs: the pods of a job start together or not at all.", (*cluster).gang},
		{"cluster_autoscaling", "schedulingOrchestration", always, "If there is an autoscaler of nodes: it adds and removes nodes with the accelerators that waiting pods request.", (*cluster).nodeScaling},
		{"pod_autoscaling", "schedulingOrchestration", always, "HorizontalPodAutoscalers work for pods with accelerators, also by metrics of AI workloads.", (*cluster).podScaling},
		{"accelerator_metrics", "observability", always, "Utilization and memory of each accelerator are served as metrics; temperature and power where the card has them.", (*cluster).acceleratorMetrics},
		{"ai_service_metrics", "observability", always, "A monitoring system finds workloads that serve metrics, and collects them.", (*cluster).serviceMetrics},
		{isolationID, "security", always, "A container sees the accelerators that Kubernetes gave its pod, and no others.", (*cluster).isolation},
		{"robust_controller", "operator", always, "An operator for AI with kinds of its own (such as Ray, Kubeflow) is installed, and reconciles its objects.", (*cluster).operator},
	}
}
