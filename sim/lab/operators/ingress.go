package operators

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

func ingresses() kind      { return kind{"networking.k8s.io", "v1", "ingresses"} }
func ingressClasses() kind { return kind{"networking.k8s.io", "v1", "ingressclasses"} }
func gateways() kind       { return kind{"gateway.networking.k8s.io", "v1", "gateways"} }
func gatewayClasses() kind { return kind{"gateway.networking.k8s.io", "v1", "gatewayclasses"} }
func routes() kind         { return kind{"gateway.networking.k8s.io", "v1", "httproutes"} }

// traefikValues are the keys of Traefik's chart that the lab uses.
type traefikValues struct {
	Deployment struct {
		Replicas *int `json:"replicas"`
	} `json:"deployment"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
	NodeSelector map[string]string   `json:"nodeSelector"`
	Service      struct {
		Annotations map[string]string `json:"annotations"`
		Type        string            `json:"type"`
	} `json:"service"`
	Providers struct {
		KubernetesGateway struct {
			Enabled bool `json:"enabled"`
		} `json:"kubernetesGateway"`
	} `json:"providers"`
	GatewayClass struct {
		Enabled *bool  `json:"enabled"`
		Name    string `json:"name"`
	} `json:"gatewayClass"`
}

// packagedTraefik simulates K3s' helm-controller for Traefik, with its HelmChartConfig.
func packagedTraefik(ctx context.Context, i *instance) (time.Duration, error) {
	configs, err := all[unstructured.Unstructured](i, i.watch[0])
	if err != nil {
		return 0, err
	}
	var v traefikValues
	for _, c := range configs {
		if c.GetName() != "traefik" || c.GetNamespace() != metav1.NamespaceSystem {
			continue
		}
		if err := yaml.Unmarshal([]byte(object.Text(c, "spec", "valuesContent")), &v); err != nil {
			i.events.Eventf(c, corev1.EventTypeWarning, "ApplyJob", "helm-install-traefik failed: failed to parse values: %v", err)
			return 0, nil
		}
	}
	if !v.hasGatewayClass() { // Helm deletes what a release no longer has
		err := i.Dynamic.Resource(gatewayClasses().gvr()).Delete(ctx, v.gatewayClass(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("gateway class: %w", err)
		}
	}
	if err := i.bundledGatewayAPI(ctx); err != nil {
		return 0, err
	}
	return 0, i.apply(ctx, v.objects()...)
}

func (v traefikValues) hasGatewayClass() bool {
	return v.Providers.KubernetesGateway.Enabled && (v.GatewayClass.Enabled == nil || *v.GatewayClass.Enabled)
}

func (v traefikValues) gatewayClass() string { return cmp.Or(v.GatewayClass.Name, "traefik") }

func (v traefikValues) objects() []*unstructured.Unstructured {
	var objs []*unstructured.Unstructured
	for _, d := range [][4]string{
		{"traefik.io", "v1alpha1", "ingressroutes", "IngressRoute"}, {"traefik.io", "v1alpha1", "middlewares", "Middleware"},
		{"traefik.io", "v1alpha1", "tlsoptions", "TLSOption"}, {"traefik.io", "v1alpha1", "tlsstores", "TLSStore"},
		{"traefik.io", "v1alpha1", "serverstransports", "ServersTransport"},
	} {
		objs = append(objs, definition(d[0], d[1], d[2], d[3], "Namespaced"))
	}
	objs = append(objs, v.workload(), v.service(), object.New("networking.k8s.io/v1", "IngressClass", "", "traefik", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"ingressclass.kubernetes.io/is-default-class": "true"}},
		"spec":     map[string]any{"controller": "traefik.io/ingress-controller"},
	}))
	if v.hasGatewayClass() {
		objs = append(objs, object.New("gateway.networking.k8s.io/v1", "GatewayClass", "", v.gatewayClass(), map[string]any{
			"spec": map[string]any{"controllerName": gatewayController},
		}))
	}
	return objs
}

const gatewayController = "traefik.io/gateway-controller"

func traefikLabels() map[string]any {
	return map[string]any{"app.kubernetes.io/name": "traefik", "app.kubernetes.io/instance": "traefik-kube-system"}
}

func (v traefikValues) workload() *unstructured.Unstructured {
	tolerations := v.Tolerations
	if tolerations == nil {
		tolerations = []corev1.Toleration{
			{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
			{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		}
	}
	replicas := 1
	if v.Deployment.Replicas != nil {
		replicas = *v.Deployment.Replicas
	}
	args := []any{"--entryPoints.web.address=:8000/tcp", "--entryPoints.websecure.address=:8443/tcp", "--providers.kubernetesingress"}
	if v.Providers.KubernetesGateway.Enabled {
		args = append(args, "--providers.kubernetesgateway")
	}
	return object.New("apps/v1", "Deployment", metav1.NamespaceSystem, "traefik", map[string]any{
		"metadata": map[string]any{"labels": traefikLabels()},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": traefikLabels()},
			"template": map[string]any{
				"metadata": map[string]any{"labels": traefikLabels()},
				"spec": map[string]any{
					"priorityClassName": "system-cluster-critical", "tolerations": tolerations, "nodeSelector": v.NodeSelector,
					"containers": []any{map[string]any{
						"name": "traefik", "image": "rancher/mirrored-library-traefik:3.7.8", "args": args,
						"ports": []any{map[string]any{"name": "web", "containerPort": 8000}, map[string]any{"name": "websecure", "containerPort": 8443}},
					}},
				},
			},
		},
	})
}

func (v traefikValues) service() *unstructured.Unstructured {
	return object.New("v1", "Service", metav1.NamespaceSystem, "traefik", map[string]any{
		"metadata": map[string]any{"labels": traefikLabels(), "annotations": v.Service.Annotations},
		"spec": map[string]any{
			"type": cmp.Or(v.Service.Type, "LoadBalancer"), "selector": traefikLabels(),
			"ports": []any{
				map[string]any{"name": "web", "port": 80, "targetPort": "web", "protocol": "TCP"},
				map[string]any{"name": "websecure", "port": 443, "targetPort": "websecure", "protocol": "TCP"},
			},
		},
	})
}

// traefik simulates Traefik itself: addresses of Ingresses, states of Gateways, and the
// routing of requests to Services.
func traefik(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept == nil {
		release := i.Traffic.Handle(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}, 0, &ingressRouter{i})
		context.AfterFunc(ctx, release)
		context.AfterFunc(ctx, i.Traffic.Show(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}, func(name string) *tls.Certificate { return i.certificateFor(ctx, name) }))
		i.kept = true
	}
	front, err := one[corev1.Service](i, services(), i.pod.Namespace, traffic.Workload(i.pod))
	if err != nil || front == nil {
		return 0, err
	}
	addresses := front.Status.LoadBalancer.Ingress
	if err := i.ingressAddresses(ctx, addresses); err != nil {
		return 0, err
	}
	if !hasArgument(i.container, "--providers.kubernetesgateway") {
		return 0, nil
	}
	return 0, i.gatewayStates(ctx, addresses)
}

// mine reports whether an Ingress is for this controller.
func (i *instance) mine(ing *networkingv1.Ingress) bool {
	name := cmp.Or(ing.Annotations["kubernetes.io/ingress.class"], "traefik")
	if ing.Spec.IngressClassName != nil {
		name = *ing.Spec.IngressClassName
	}
	class, err := one[networkingv1.IngressClass](i, ingressClasses(), "", name)
	return err == nil && class != nil && class.Spec.Controller == "traefik.io/ingress-controller"
}

func (i *instance) ingressAddresses(ctx context.Context, addresses []corev1.LoadBalancerIngress) error {
	list, err := all[networkingv1.Ingress](i, ingresses())
	if err != nil {
		return err
	}
	want := make([]networkingv1.IngressLoadBalancerIngress, len(addresses))
	for n, a := range addresses {
		want[n] = networkingv1.IngressLoadBalancerIngress{IP: a.IP}
	}
	for _, ing := range list {
		have := ing.Status.LoadBalancer.Ingress
		if !i.mine(ing) || slices.EqualFunc(have, want, func(a, b networkingv1.IngressLoadBalancerIngress) bool { return a.IP == b.IP }) {
			continue
		}
		ing.Status.LoadBalancer.Ingress = want
		if _, err := i.Client.NetworkingV1().Ingresses(ing.Namespace).UpdateStatus(ctx, ing, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("ingress %s/%s: %w", ing.Namespace, ing.Name, err)
		}
	}
	return nil
}

// certificateFor finds the certificate that an Ingress or a Gateway names for a host.
func (i *instance) certificateFor(ctx context.Context, host string) *tls.Certificate {
	list, err := all[networkingv1.Ingress](i, ingresses())
	if err != nil {
		return nil
	}
	for _, ing := range list {
		for _, t := range ing.Spec.TLS {
			if slices.Contains(t.Hosts, host) && i.mine(ing) {
				return i.Traffic.SecretPair(ctx, ing.Namespace, t.SecretName)
			}
		}
	}
	return i.listenerCertificate(ctx, host)
}

// listenerCertificate finds the certificate that a listener of a Gateway names for a host.
func (i *instance) listenerCertificate(ctx context.Context, host string) *tls.Certificate {
	gateways, err := all[unstructured.Unstructured](i, gateways())
	if err != nil {
		return nil
	}
	for _, g := range gateways {
		for _, l := range nestedList(g, "spec", "listeners") {
			listener := &unstructured.Unstructured{Object: l}
			for _, ref := range nestedList(listener, "tls", "certificateRefs") {
				if name, _ := ref["name"].(string); object.Text(listener, "hostname") == host {
					return i.Traffic.SecretPair(ctx, g.GetNamespace(), name)
				}
			}
		}
	}
	return nil
}

// ingressRouter forwards a request to the Service that an Ingress or a route names.
type ingressRouter struct{ *instance }

// ServeHTTP answers with Traefik's 404 if no rule matches.
func (t *ingressRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	h := t.byIngress(host, r.URL.Path)
	if h == nil {
		h = t.byRoute(host, gatewayController)
	}
	if h == nil {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	h.ServeHTTP(w, r)
}

func (t *ingressRouter) byIngress(host, path string) http.Handler {
	list, err := all[networkingv1.Ingress](t.instance, ingresses())
	if err != nil {
		return nil
	}
	for _, ing := range list {
		if !t.mine(ing) {
			continue
		}
		for _, rule := range ing.Spec.Rules {
			if rule.Host != "" && rule.Host != host || rule.HTTP == nil {
				continue
			}
			for _, p := range rule.HTTP.Paths {
				if p.Backend.Service == nil || !strings.HasPrefix(path, cmp.Or(p.Path, "/")) {
					continue
				}
				return t.to(ing.Namespace, p.Backend.Service.Name, p.Backend.Service.Port.Name, p.Backend.Service.Port.Number)
			}
		}
	}
	return nil
}

// byRoute finds what a route names that a controller has accepted.
func (i *instance) byRoute(host, controller string) http.Handler {
	list, err := all[unstructured.Unstructured](i, routes())
	if err != nil {
		return nil
	}
	for _, route := range list {
		names, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
		accepted := slices.ContainsFunc(nestedList(route, "status", "parents"), func(p map[string]any) bool { return p["controllerName"] == controller })
		if !accepted || len(names) > 0 && !slices.Contains(names, host) {
			continue
		}
		for _, rule := range nestedList(route, "spec", "rules") {
			refs := nestedList(&unstructured.Unstructured{Object: rule}, "backendRefs")
			if len(refs) == 0 {
				continue
			}
			name, _ := refs[0]["name"].(string)
			port, _ := refs[0]["port"].(int64)
			return i.to(route.GetNamespace(), name, "", int32(port))
		}
	}
	return nil
}

func (i *instance) to(namespace, name, portName string, port int32) http.Handler {
	h, err := i.Traffic.Service(namespace, name, portName, port)
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no available server", http.StatusServiceUnavailable)
		})
	}
	return h
}
