package addon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

const (
	monitoringNamespace = "monitoring"
	// Services of its chart, whose names begin with that of the release and the first 26 letters of its own.
	prometheusService   = "monitoring-kube-prometheus-prometheus"
	alertmanagerService = "monitoring-kube-prometheus-alertmanager"
)

// grafanaTLS is the Secret with Grafana's certificate.
const grafanaTLS = "grafana-tls"

// Monitoring provides Prometheus and Grafana, and their sources in the cluster. Grafana's
// password is generated once, in the Secret monitoring/grafana-admin.
type Monitoring struct {
	*spec.Monitoring
	Logs     bool           // the cluster has Logs, which Grafana shows too
	Platform *spec.Platform // with the login by which people sign in to Grafana; nil: with its own password
}

func (m Monitoring) Info() Info {
	return Info{
		Name: "monitoring", Section: "monitoring", On: m.Monitoring != nil,
		Namespace: monitoringNamespace,
		Chart: chart.Pin{
			Chart: "kube-prometheus-stack", Repo: "https://prometheus-community.github.io/helm-charts",
			Version: "92.1.0", App: "v0.94.1", Kubernetes: ">=1.25.0-0", Compared: "2026-10-15",
			Source: "pinned: references of October 2026; read: 88.5.3 of 2026-08-21, Chart.yaml, four major versions older",
		},
	}
}

func (m Monitoring) Make(s *Site) (Recipe, error) {
	if m.Retention < 2*time.Hour {
		return Recipe{}, fmt.Errorf("monitoring: retention %s: want 2h or more, which is one block of Prometheus", m.Retention)
	}
	grafana, trusted, err := m.grafana(s)
	if err != nil {
		return Recipe{}, err
	}
	v := values{
		"prometheus":   values{"prometheusSpec": m.prometheus()},
		"alertmanager": values{"enabled": m.Alertmanager.IsOn()},
		"grafana":      grafana,
		// On every node, whatever its taints.
		"prometheus-node-exporter": values{"tolerations": everywhere()},
	}
	told, err := m.alerts(s, v)
	if err != nil {
		return Recipe{}, err
	}
	// K3s runs these in its own process: there are no pods to scrape, and the chart's alerts
	// would fire forever.
	for _, part := range []string{"kubeControllerManager", "kubeScheduler", "kubeProxy", "kubeEtcd"} {
		v[part] = values{"enabled": false}
	}
	s.tolerate(v, []string{"prometheus", "prometheusSpec"}, []string{"grafana"}, []string{"kube-state-metrics"},
		[]string{"prometheusOperator"}, []string{"prometheusOperator", "admissionWebhooks", "patch"})
	if m.Alertmanager.IsOn() {
		s.tolerate(v, []string{"alertmanager", "alertmanagerSpec"})
	}
	p := Recipe{
		Part: chart.Part{
			Name: "monitoring", Release: s.release(m.Info(), v), NamespaceLabels: privilegedLabels(), Keep: true,
			Secrets: append([]chart.Secret{{Namespace: monitoringNamespace, Name: "grafana-admin",
				Data: map[string]secret.Value{"admin-user": secret.New("admin")}, Generate: map[string]int{"admin-password": 16}}}, told...),
		},
		APIs:      []string{"monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/PrometheusRule"},
		Passwords: []Password{{"user admin of Grafana", monitoringNamespace, "grafana-admin", "admin-password"}},
	}
	p.Verify = []verify.Check{{Name: "Prometheus reads its targets", Try: m.targets}}
	if m.Alerts != nil {
		p.Verify = append(p.Verify, verify.Check{Name: "an alert is delivered", Try: m.deliver})
	}
	if s.Has("cert-manager") && m.Alerts != nil {
		p.After = append(p.After, certificateMetrics())
	}
	if m.issued(s) {
		p.Needs = []string{"issuer"}
	}
	s.requireParts(&p, s.Provider(cmp.Or(m.StorageClass, s.DefaultClass)), "ingress")
	if m.Hostname != "" {
		p.Web = &Web{Title: "Grafana", URL: s.scheme() + m.Hostname, Login: m.issuer()}
	}
	if m.copiesCertificate(s) {
		p.Late = withCertificate(p.Part, s.TLS.Secret, p.Release.Namespace, grafanaTLS)
	}
	if m.signsIn() {
		s.requireParts(&p, LoginName)
		p.Secrets = append(p.Secrets, trusted...)
		in := chart.Secret{Namespace: monitoringNamespace, Name: grafanaLogin}
		p.Late, err = s.withLogin(p.Part, p.Late, m.Platform.Login, spec.LoginGrafana, in, grafanaOAuth+"CLIENT_SECRET", m.addresses(s))
	}
	return p, err
}

// targets asks Prometheus what it reads. A target that has just started has a minute.
func (Monitoring) targets(ctx context.Context, c verify.Cluster) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("for a minute"))
	defer cancel()
	const most = 5 // of them are named
	count := 0
	err := verify.Await(ctx, func(ctx context.Context) (string, error) {
		said, err := c.Ask(ctx, kube.ServiceRequest{Namespace: monitoringNamespace, Service: prometheusService, Port: "9090", Path: "/api/v1/query", Query: url.Values{"query": {"up"}}})
		if err != nil {
			return "", err
		}
		var answer struct { // an instant vector (docs/querying/api.md of Prometheus)
			Data struct {
				Result []struct {
					Metric map[string]string `json:"metric"`
					Value  [2]any            `json:"value"`
				} `json:"result"`
			} `json:"data"`
		}
		if err := json.Unmarshal(said, &answer); err != nil {
			return "", fmt.Errorf("the answer of Prometheus: %w", err)
		}
		var down []string
		for _, r := range answer.Data.Result {
			if r.Value[1] != "1" {
				down = append(down, r.Metric["job"]+" "+r.Metric["instance"])
			}
		}
		count = len(answer.Data.Result)
		switch {
		case count == 0:
			return "it reads nothing", nil
		case len(down) > 0:
			return fmt.Sprintf("%d of %d targets do not answer: %s", len(down), count, strings.Join(down[:min(most, len(down))], ", ")), nil
		}
		return "", nil
	})
	return printable.Count(count, "target"), err
}

// root is the address of Grafana's pages.
func (m Monitoring) root(s *Site) string {
	if m.issued(s) || m.copiesCertificate(s) || s.gateway() != nil {
		return "https://" + m.Hostname
	}
	return "http://" + m.Hostname
}

// issued reports whether an issuer of the cluster signs Grafana's certificate.
func (m Monitoring) issued(s *Site) bool { return s.issued() && s.Ingress.Kind != spec.IngressNone }

// copiesCertificate reports whether Grafana's certificate exists elsewhere in the cluster.
func (m Monitoring) copiesCertificate(s *Site) bool {
	return s.TLS != nil && s.TLS.Source == spec.TLSSecret && m.Hostname != "" && s.Ingress.Kind == spec.IngressTraefik
}

func (m Monitoring) prometheus() values {
	size := resource.NewQuantity(int64(m.Size), resource.BinarySI)
	volume := values{
		"accessModes": []any{string(corev1.ReadWriteOnce)},
		"resources":   values{"requests": values{"storage": size.String()}},
	}
	if m.StorageClass != "" {
		volume["storageClassName"] = m.StorageClass
	}
	spec := values{
		"retention": days(m.Retention),
		// A limit by age alone could fill the volume on a busy day, and a full volume stops
		// Prometheus.
		"retentionSize": fmt.Sprintf("%dMB", size.Value()/1_000_000*8/10),
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

func (m Monitoring) grafana(s *Site) (g values, trusted []chart.Secret, err error) {
	ini := values{}
	g = values{"admin": values{"existingSecret": "grafana-admin", "userKey": "admin-user", "passwordKey": "admin-password"}}
	if m.Logs {
		// Downloaded in the background: without the internet Grafana lacks only this source.
		ini["plugins"] = values{"preinstall": logsPlugin}
		g["grafana.ini"], g["additionalDataSources"] = ini, []any{values{"name": "Logs", "type": logsPlugin, "access": "proxy", "url": logsURL}}
	}
	if m.Hostname == "" {
		return g, nil, nil
	}
	// Links in Grafana's own pages and alerts.
	ini["server"] = values{"root_url": m.root(s)}
	g["grafana.ini"] = ini
	if m.signsIn() {
		trusted, err = m.signIn(g, ini)
	}
	if s.gateway() != nil {
		g["route"] = values{"main": values{"enabled": true, "hostnames": []any{m.Hostname},
			"parentRefs": []any{s.gateway().ref()}}}
		return g, trusted, err
	}
	ingress := values{"enabled": true, "ingressClassName": s.Ingress.Class, "hosts": []any{m.Hostname}}
	if m.issued(s) {
		ingress["annotations"] = values{"cert-manager.io/cluster-issuer": s.TLS.Issuer}
	}
	if m.issued(s) || m.copiesCertificate(s) {
		ingress["tls"] = []any{values{"hosts": []any{m.Hostname}, "secretName": grafanaTLS}}
	}
	g["ingress"] = ingress
	return g, trusted, err
}
