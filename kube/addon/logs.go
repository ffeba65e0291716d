package addon

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

const (
	logsNamespace = "logs"
	logsURL       = "http://victoria-logs.logs.svc:9428"
	logsPlugin    = "victoriametrics-logs-datasource" // of Grafana
	logsRepo      = "https://victoriametrics.github.io/helm-charts"
)

// Logs provides VictoriaLogs, which stores what [LogCollector] sends. Its volume outlives it.
type Logs struct{ *spec.Logs }

func (l Logs) Info() Info {
	return Info{
		Name: "logs", Section: "logs", On: l.Logs != nil, Namespace: logsNamespace,
		Chart: chart.Pin{
			Chart: "victoria-logs-single", Repo: logsRepo,
			Version: "0.13.9", App: "v1.52.0", Kubernetes: ">=1.25.0-0", Compared: "2026-11-29",
			Source: "pinned and read: helm-charts of 2026-08-22, values.yaml and templates, rendered; flags: VictoriaLogs, app/vlstorage/main.go",
		},
	}
}

func (l Logs) Make(s *Site) (Recipe, error) {
	size := resource.NewQuantity(int64(l.Size), resource.BinarySI)
	volume := values{"size": size.String(), "annotations": values{"helm.sh/resource-policy": "keep"}}
	if l.StorageClass != "" {
		volume["storageClassName"] = l.StorageClass
	}
	server := values{
		"fullnameOverride": "victoria-logs",
		// The claim of a StatefulSet could never grow.
		"mode":             "deployment",
		"service":          values{"clusterIP": ""},
		"retentionPeriod":  days(l.Retention),
		"persistentVolume": volume,
		// With a unit: the chart takes a mere number for GiB.
		"retentionDiskSpaceUsage": fmt.Sprintf("%dMiB", l.Size/spec.MiB*8/10),
	}
	v := values{"server": server}
	s.tolerate(v, []string{"server"})
	p := Recipe{Part: chart.Part{Name: "logs", Release: s.release(l.Info(), v), NamespaceLabels: privilegedLabels(), Keep: true}}
	s.requireParts(&p, s.Provider(cmp.Or(l.StorageClass, s.DefaultClass)))
	return p, nil
}

// LogCollector sends the logs of all pods to [Logs], from every node.
type LogCollector struct{ *spec.Logs }

func (l LogCollector) Info() Info {
	return Info{
		Name: "log-collector", Section: "logs", On: l.Logs != nil, Namespace: logsNamespace,
		Chart: chart.Pin{
			Chart: "victoria-logs-collector", Repo: logsRepo,
			Version: "0.3.7", App: "v1.52.0", Kubernetes: ">=1.25.0-0", Compared: "2026-11-29",
			Source: "pinned and read: helm-charts of 2026-08-22, values.yaml and templates, rendered",
		},
	}
}

func (l LogCollector) Make(s *Site) (Recipe, error) {
	v := values{
		"fullnameOverride": "log-collector",
		"remoteWrite":      []any{values{"url": logsURL}},
		"tolerations":      everywhere(),
	}
	p := Recipe{Part: chart.Part{Name: "log-collector", Release: s.release(l.Info(), v), NamespaceLabels: privilegedLabels()}}
	s.requireParts(&p, "logs")
	return p, nil
}
