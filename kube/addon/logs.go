package addon

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
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
	p.Verify = []verify.Check{{Name: "a line of a pod is found", Try: l.find}}
	return p, nil
}

// find has a pod write a line, and looks for it.
func (Logs) find(ctx context.Context, c verify.Cluster) (string, error) {
	word := verify.Word()
	pod := c.Pod(verify.Namespace, "logs", `echo "$WORD"`, corev1.EnvVar{Name: "WORD", Value: word})
	var began time.Time
	err := c.WithObject(ctx, pod, func(ctx context.Context) error {
		if _, err := c.Ends(ctx, pod); err != nil {
			return err
		}
		began = time.Now()
		return verify.Await(ctx, func(ctx context.Context) (string, error) {
			// A word alone is looked for in what pods wrote (docs/victorialogs/logsql.md, app/vlselect/main.go).
			said, err := c.Ask(ctx, kube.ServiceRequest{Namespace: logsNamespace, Service: "victoria-logs", Port: "9428", Path: "/select/logsql/query", Query: url.Values{"query": {word}, "limit": {"1"}}})
			if err != nil || bytes.Contains(said, []byte(word)) {
				return "", err
			}
			return "VictoriaLogs has no line of the pod: kubectl -n " + logsNamespace + " get pods shows whether log-collector runs on its node", nil
		})
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after it was written", time.Since(began).Round(time.Second)), nil
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
	p := Recipe{TriedBy: "logs", Part: chart.Part{Name: "log-collector", Release: s.release(l.Info(), v), NamespaceLabels: privilegedLabels()}}
	s.requireParts(&p, "logs")
	return p, nil
}
