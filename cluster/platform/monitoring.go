package platform

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
)

// grafanaTLS is the Secret with Grafana's certificate.
const grafanaTLS = "grafana-tls"

// borrowing adds to a part a certificate that another owner keeps in the cluster.
func borrowing(part chart.Part, from, name string) func(context.Context, *kube.Client) (chart.Part, error) {
	if from == part.Release.Namespace+"/"+name { // it is in the right namespace already
		return nil
	}
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		lent, err := lend(ctx, client, from, part.Release.Namespace, name)
		out := part
		out.Secrets = append(slices.Clone(part.Secrets), lent)
		return out, err
	}
}

// monitoring adds Prometheus, Grafana, and the monitoring of GPUs.
func (r *recipe) monitoring(p *spec.Platform) {
	m := p.Monitoring
	if m == nil {
		return
	}
	o := addon.MonitoringOptions{
		Common: r.common("monitoring"), Retention: m.Retention, StorageClass: m.StorageClass, Alertmanager: m.Alertmanager,
		Hostname: m.Hostname, Class: p.Ingress.Class,
	}
	if m.Size > 0 {
		o.Size = *resource.NewQuantity(int64(m.Size), resource.BinarySI)
	}
	if p.TLS != nil && p.TLS.Source != spec.TLSSecret && p.Ingress.Kind != spec.IngressNone {
		o.Issuer = p.TLS.Issuer
	}
	borrows := p.TLS != nil && p.TLS.Source == spec.TLSSecret && m.Hostname != "" && p.Ingress.Kind != spec.IngressGateway && p.Ingress.Kind != spec.IngressNone
	if borrows {
		o.TLSSecret = grafanaTLS
	}
	if p.Ingress.Kind == spec.IngressGateway {
		o.GatewayNamespace, o.GatewayName = r.gateway(p).Ref()
	}
	part, err := addon.Monitoring(o)
	class := m.StorageClass
	if class == "" {
		class = p.Storage.Default
	}
	for _, name := range []string{r.bringer(class), "ingress"} {
		if r.has(name) {
			part.Needs = append(part.Needs, name)
		}
	}
	r.add(part, err, func(x *Piece) {
		if borrows {
			x.Late = borrowing(part, p.TLS.Secret, grafanaTLS)
		}
	})
	if !m.GPUs.IsOn() {
		return
	}
	if HasGPUOperator(r.spec) { // which has an exporter
		part, err = addon.GPUDashboard()
		r.add(part, err)
		return
	}
	part, err = addon.GPUExporter(addon.GPUExporterOptions{Common: r.common("dcgm-exporter"), RuntimeClass: nvidia.RuntimeClass, Nodes: nvidia.Labels()})
	r.add(part, err, func(x *Piece) { x.Gpus = true })
}
