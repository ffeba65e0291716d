package operators

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// asked are the annotations by which an Ingress or a Gateway asks for certificates.
func asked(annotations map[string]string) (name, kind string) {
	if name := annotations["cert-manager.io/cluster-issuer"]; name != "" {
		return name, "ClusterIssuer"
	}
	return annotations["cert-manager.io/issuer"], cmp.Or(annotations["cert-manager.io/issuer-kind"], "Issuer")
}

// certificatesOfIngresses is cert-manager's ingress-shim.
func (i *instance) certificatesOfIngresses(ctx context.Context) error {
	list, err := all[networkingv1.Ingress](i, ingresses())
	if err != nil {
		return err
	}
	for _, ing := range list {
		name, kind := asked(ing.Annotations)
		if name == "" || ing.DeletionTimestamp != nil {
			continue
		}
		owner := object.New("networking.k8s.io/v1", "Ingress", ing.Namespace, ing.Name, nil)
		owner.SetUID(ing.UID)
		for _, t := range ing.Spec.TLS {
			if t.SecretName == "" || len(t.Hosts) == 0 {
				continue
			}
			if err := i.wanted(ctx, owner, t.SecretName, t.Hosts, name, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted makes a Certificate for an Ingress or a Gateway.
func (i *instance) wanted(ctx context.Context, owner *unstructured.Unstructured, secret string, hosts []string, issuer, kind string) error {
	c := object.New("cert-manager.io/v1", "Certificate", owner.GetNamespace(), secret, map[string]any{"spec": map[string]any{
		"secretName": secret, "dnsNames": hosts, "usages": []any{"digital signature", "key encipherment"},
		"issuerRef": map[string]any{"name": issuer, "kind": kind, "group": "cert-manager.io"},
	}})
	object.OwnedBy(c, owner)
	return i.apply(ctx, c)
}

// certificatesOfGateways is cert-manager's gateway-shim, where the kinds are served.
// Since 1.15 it is on by configuration only.
func (i *instance) certificatesOfGateways(ctx context.Context) error {
	if !i.gatewayAPI(ctx) {
		return nil
	}
	if !i.has(gateways()) {
		i.Mapper.Reset() // the kinds may have come since
		if !i.has(gateways()) {
			return nil
		}
	}
	list, err := i.Dynamic.Resource(gateways().gvr()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("gateways: %w", err)
	}
	for n := range list.Items {
		g := &list.Items[n]
		name, kind := asked(g.GetAnnotations())
		if name == "" {
			continue
		}
		for _, l := range nestedList(g, "spec", "listeners") {
			listener := &unstructured.Unstructured{Object: l}
			host := object.Text(listener, "hostname")
			for _, ref := range nestedList(listener, "tls", "certificateRefs") {
				secret, _ := ref["name"].(string)
				if host == "" || secret == "" {
					continue
				}
				if err := i.wanted(ctx, g, secret, []string{host}, name, kind); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// gatewayAPI reports whether the controller was told to look at Gateways.
func (i *instance) gatewayAPI(ctx context.Context) bool {
	if hasArgument(i.container, "--enable-gateway-api") || i.argument("enable-gateway-api") == "true" {
		return true
	}
	for _, v := range i.pod.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		config, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err == nil && strings.Contains(config.Data["config.yaml"], "enableGatewayAPI: true") {
			return true
		}
	}
	return false
}
