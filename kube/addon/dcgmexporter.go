package addon

import (
	"embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
)

//go:embed dashboards/gpu.json
var dashboards embed.FS

// GPUExporter provides NVIDIA's DCGM exporter on the nodes with GPUs, and a dashboard.
type GPUExporter struct {
	*spec.Monitoring
	Operator bool // the GPU operator is on, which has an exporter
	DRA      bool // pods get their GPUs by DRA
}

func (e GPUExporter) Info() Info {
	return Info{
		Name: "dcgm-exporter", Section: "monitoring", On: e.Monitoring != nil && e.GPUs.IsOn() && !e.Operator,
		Namespace: monitoringNamespace,
		Chart: chart.Pin{
			Chart: "dcgm-exporter", Repo: "https://nvidia.github.io/dcgm-exporter/helm-charts",
			Version: "4.8.2", App: "4.5.3-4.8.2", Kubernetes: ">=1.19.0-0", Compared: "2026-05-06",
			Source: "pinned and read: tag 4.5.3-4.8.2 of 2026-05-06, Chart.yaml; digest: archive and index.yaml of its branch gh-pages",
			Digest: "sha256:1c5535c03ebab3f021444df6016fce1cd7871385122e115c6ed24c804b623803",
		},
	}
}

func (e GPUExporter) Make(s *Site) (Recipe, error) {
	nodes := values{}
	for key, value := range nvidia.Labels() {
		nodes[key] = value
	}
	v := values{
		// Without the runtime class it sees no GPU, and without the labels it fails on nodes without
		// GPUs.
		"runtimeClassName": nvidia.RuntimeClass,
		"nodeSelector":     nodes,
		"tolerations":      s.tolerations(exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
		// The labels namespace and pod are those of the pod that uses the GPU. Otherwise
		// Prometheus overwrites them with the exporter's own. The node is added because its
		// label has changed between versions of the exporter.
		"serviceMonitor": values{"honorLabels": true, "relabelings": nodeOfExporter()},
	}
	if e.DRA { // it finds a GPU's pod by claims and ResourceSlices
		v["kubernetesDRA"] = values{"enabled": true}
	}
	r := s.release(e.Info(), v)
	board, err := gpuDashboard("dcgm-exporter", "dashboard-gpu")
	if err != nil {
		return Recipe{}, err
	}
	return Recipe{GPUs: true, Part: chart.Part{
		Name: "dcgm-exporter", Needs: []string{"monitoring"}, Release: r, NamespaceLabels: privilegedLabels(), After: []runtime.Object{board},
	}}, nil
}

// nodeOfExporter adds the exporter's node to its metrics.
func nodeOfExporter() []any {
	return []any{values{"sourceLabels": []any{"__meta_kubernetes_pod_node_name"}, "targetLabel": "node"}}
}

// GPUDashboard provides the dashboard alone, for an exporter that the GPU operator runs.
type GPUDashboard struct{ GPUExporter }

func (d GPUDashboard) Info() Info {
	return Info{Name: "gpu-dashboard", Section: "monitoring", On: d.Monitoring != nil && d.GPUs.IsOn() && d.Operator}
}

func (GPUDashboard) Make(*Site) (Recipe, error) {
	// Not the name of the exporter's: removing that part removes its dashboard.
	board, err := gpuDashboard("gpu-dashboard", "dashboard-gpu-operator")
	return Recipe{Part: chart.Part{Name: "gpu-dashboard", Needs: []string{"monitoring"}, After: []runtime.Object{board}}}, err
}

func gpuDashboard(part, name string) (*corev1.ConfigMap, error) {
	board, err := dashboards.ReadFile("dashboards/gpu.json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", part, err)
	}
	m := meta(part, monitoringNamespace, name)
	m.Labels["grafana_dashboard"] = "1" // what Grafana's sidecar looks for
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: m, Data: map[string]string{"gpu.json": string(board)},
	}, nil
}
