package addon

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

//go:embed dashboards/gpu.json
var dashboards embed.FS

const monitoringNamespace = "monitoring"

// MonitoringOptions configure Prometheus and Grafana.
type MonitoringOptions struct {
	Common
	Retention    time.Duration     // default 15 days
	StorageClass string            // of Prometheus' volume; empty: the default class
	Size         resource.Quantity // of it; default 50Gi
	Alertmanager bool

	Hostname string // of Grafana; empty: not exposed
	Issuer   string // ClusterIssuer of its certificate; empty: plain HTTP, or the Gateway's
	// TLSSecret is the Secret with its certificate, in the namespace monitoring, if no Issuer
	// creates one.
	TLSSecret string
	Class     string // of the Ingress; default "traefik"
	// Gateway that Grafana's route attaches to, instead of an Ingress.
	GatewayNamespace, GatewayName string
}

// Monitoring provides Prometheus and Grafana, and their sources in the cluster. Grafana's
// password is generated once, in the Secret monitoring/grafana-admin.
func Monitoring(o MonitoringOptions) (chart.Part, error) {
	if o.Retention == 0 {
		o.Retention = 15 * 24 * time.Hour
	}
	if o.Size.IsZero() {
		o.Size = resource.MustParse("50Gi")
	}
	if o.Retention < 2*time.Hour {
		return chart.Part{}, fmt.Errorf("monitoring: retention %s: want 2h or more, which is one block of Prometheus", o.Retention)
	}
	v := values{
		"prometheus":   values{"prometheusSpec": o.prometheus()},
		"alertmanager": values{"enabled": o.Alertmanager},
		"grafana":      o.grafana(),
		// On every node, whatever its taints.
		"prometheus-node-exporter": values{"tolerations": everywhere()},
	}
	// K3s runs these in its own process: there are no pods to scrape, and the chart's alerts
	// would fire forever.
	for _, part := range []string{"kubeControllerManager", "kubeScheduler", "kubeProxy", "kubeEtcd"} {
		v[part] = values{"enabled": false}
	}
	o.tolerate(v, []string{"prometheus", "prometheusSpec"}, []string{"grafana"}, []string{"kube-state-metrics"},
		[]string{"prometheusOperator"}, []string{"prometheusOperator", "admissionWebhooks", "patch"})
	if o.Alertmanager {
		o.tolerate(v, []string{"alertmanager", "alertmanagerSpec"})
	}
	r, err := o.release("monitoring", monitoringNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	p := chart.Part{
		Name: "monitoring", Release: r, NamespaceLabels: privileged(), Keep: true,
		Secrets: []chart.Secret{{Namespace: monitoringNamespace, Name: "grafana-admin",
			Data: map[string]secret.Value{"admin-user": secret.New("admin")}, Generate: map[string]int{"admin-password": 16}}},
	}
	if o.Issuer != "" {
		p.Needs = []string{"issuer"}
	}
	return p, nil
}

func (o MonitoringOptions) prometheus() values {
	volume := values{
		"accessModes": []any{string(corev1.ReadWriteOnce)},
		"resources":   values{"requests": values{"storage": o.Size.String()}},
	}
	if o.StorageClass != "" {
		volume["storageClassName"] = o.StorageClass
	}
	spec := values{
		"retention": days(o.Retention),
		// A limit by age alone could fill the volume on a busy day, and a full volume stops
		// Prometheus.
		"retentionSize": fmt.Sprintf("%dMB", o.Size.Value()/1_000_000*8/10),
		"storageSpec":   values{"volumeClaimTemplate": values{"spec": volume}},
	}
	// By default the chart uses only its own monitors; this includes those of other charts.
	for _, kind := range []string{"serviceMonitor", "podMonitor", "rule", "probe", "scrapeConfig"} {
		spec[kind+"SelectorNilUsesHelmValues"] = false
	}
	return spec
}

// days writes a duration in Prometheus' format.
func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return fmt.Sprintf("%ds", int64(d.Seconds()))
}

func (o MonitoringOptions) grafana() values {
	g := values{"admin": values{"existingSecret": "grafana-admin", "userKey": "admin-user", "passwordKey": "admin-password"}}
	if o.Hostname != "" {
		scheme := "http"
		if o.Issuer != "" || o.TLSSecret != "" || o.GatewayName != "" {
			scheme = "https"
		}
		// Links in Grafana's own pages and alerts.
		g["grafana.ini"] = values{"server": values{"root_url": scheme + "://" + o.Hostname}}
	}
	switch {
	case o.Hostname == "":
	case o.GatewayName != "":
		g["route"] = values{"main": values{"enabled": true, "hostnames": []any{o.Hostname},
			"parentRefs": []any{values{"name": o.GatewayName, "namespace": o.GatewayNamespace}}}}
	default:
		if o.Class == "" {
			o.Class = "traefik"
		}
		ingress := values{"enabled": true, "ingressClassName": o.Class, "hosts": []any{o.Hostname}}
		if o.Issuer != "" {
			ingress["annotations"] = values{"cert-manager.io/cluster-issuer": o.Issuer}
			o.TLSSecret = cmp.Or(o.TLSSecret, "grafana-tls")
		}
		if o.TLSSecret != "" {
			ingress["tls"] = []any{values{"hosts": []any{o.Hostname}, "secretName": o.TLSSecret}}
		}
		g["ingress"] = ingress
	}
	return g
}

// GPUExporterOptions say which nodes have GPUs.
type GPUExporterOptions struct {
	Common
	RuntimeClass string            // with which a container sees GPUs, e.g. "nvidia"
	Nodes        map[string]string // labels of nodes with GPUs
}

// GPUExporter provides NVIDIA's DCGM exporter on the nodes with GPUs, and a dashboard.
// It needs the part "monitoring".
func GPUExporter(o GPUExporterOptions) (chart.Part, error) {
	if o.RuntimeClass == "" || len(o.Nodes) == 0 {
		return chart.Part{}, errors.New("dcgm-exporter: runtime class and labels of the nodes with GPUs must be set: " +
			"without the runtime class the exporter sees no GPU, without the labels it fails on nodes without GPUs")
	}
	v := values{
		"runtimeClassName": o.RuntimeClass,
		"nodeSelector":     plain(maps.Clone(o.Nodes)),
		"tolerations":      o.tolerations(exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
		// The labels namespace and pod are those of the pod that uses the GPU. Otherwise
		// Prometheus overwrites them with the exporter's own. The node is added because its
		// label has changed between versions of the exporter.
		"serviceMonitor": values{"honorLabels": true, "relabelings": nodeOfExporter()},
	}
	r, err := o.release("dcgm-exporter", monitoringNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	board, err := gpuDashboard("dcgm-exporter", "dashboard-gpu")
	if err != nil {
		return chart.Part{}, err
	}
	return chart.Part{
		Name: "dcgm-exporter", Needs: []string{"monitoring"}, Release: r, NamespaceLabels: privileged(), After: []runtime.Object{board},
	}, nil
}

// nodeOfExporter adds the exporter's node to its metrics.
func nodeOfExporter() []any {
	return []any{values{"sourceLabels": []any{"__meta_kubernetes_pod_node_name"}, "targetLabel": "node"}}
}

// GPUDashboard provides the dashboard alone, for an exporter that the GPU operator runs. It needs
// the part "monitoring".
func GPUDashboard() (chart.Part, error) {
	// Not the name of the exporter's: removing that part removes its dashboard.
	board, err := gpuDashboard("gpu-dashboard", "dashboard-gpu-operator")
	return chart.Part{Name: "gpu-dashboard", Needs: []string{"monitoring"}, After: []runtime.Object{board}}, err
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
