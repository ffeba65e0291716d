package operators

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

const ciliumController = "io.cilium/gateway-controller"

// bundledGatewayAPI are the definitions of the Gateway API that K3s' chart traefik-crd has (its files for K3s 1.36: Gateway API 1.6.1).
// Helm takes over those that name its release as their owner, and no others (helm v3.22.0, pkg/action/validate.go). What it
// takes over is the same here, and stays as it is.
func (i *instance) bundledGatewayAPI(ctx context.Context) error {
	const release = "traefik-crd"
	for _, d := range [][2]string{
		{"gatewayclasses", "GatewayClass"}, {"gateways", "Gateway"}, {"httproutes", "HTTPRoute"}, {"grpcroutes", "GRPCRoute"},
		{"tlsroutes", "TLSRoute"}, {"referencegrants", "ReferenceGrant"}, {"backendtlspolicies", "BackendTLSPolicy"},
	} {
		scope := "Namespaced"
		if d[1] == "GatewayClass" {
			scope = "Cluster"
		}
		own := definition("gateway.networking.k8s.io", "v1", d[0], d[1], scope)
		notes := own.GetAnnotations()
		notes["meta.helm.sh/release-name"], notes["meta.helm.sh/release-namespace"], notes["helm.sh/resource-policy"] = release, metav1.NamespaceSystem, "keep"
		own.SetAnnotations(notes)
		own.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
		live, err := i.gatewayDefinition(ctx, own.GetName())
		switch {
		case apierrors.IsNotFound(err):
			err = i.apply(ctx, own)
		case err == nil && (live.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" || live.GetAnnotations()["meta.helm.sh/release-name"] != release):
			err = fmt.Errorf("helm-install-%s: CustomResourceDefinition %q exists and cannot be imported into the current release: invalid ownership metadata", release, own.GetName())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) gatewayDefinition(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	kinds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return i.Dynamic.Resource(kinds).Get(ctx, name, metav1.GetOptions{}) //nolint:wrapcheck // the caller asks what it is
}

// ciliumFront is what Cilium's operator keeps of its Gateways.
type ciliumFront struct {
	idle     bool              // it has found no definitions at its start
	services map[string]func() // by namespace/name; each ends its front
}

// ciliumGateway plays the Gateway API of Cilium 1.20: of its operator, which looks for the definitions once, at its start
// (operator/pkg/gateway-api/cell.go), and of Envoy on the nodes. It takes the place of both.
func ciliumGateway(ctx context.Context, i *instance) (time.Duration, error) {
	kept, ok := i.kept.(*ciliumFront)
	if !ok {
		on, err := i.servesGateways(ctx)
		if err != nil {
			return 0, err
		}
		kept = &ciliumFront{idle: !on, services: map[string]func(){}}
		i.kept = kept
		if on {
			i.answerGateways(ctx)
		}
	}
	if kept.idle {
		return 0, nil
	}
	classes, err := all[unstructured.Unstructured](i, gatewayClasses())
	if err != nil {
		return 0, err
	}
	ours := map[string]bool{}
	for _, c := range classes {
		if object.Text(c, "spec", "controllerName") != ciliumController {
			continue
		}
		ours[c.GetName()] = true
		if err := i.patchStatus(ctx, c, map[string]any{"conditions": object.Conditions(c, true, "Accepted", "True", "Accepted", "Valid GatewayClass")}); err != nil {
			return 0, err
		}
	}
	list, err := all[unstructured.Unstructured](i, gateways())
	if err != nil {
		return 0, err
	}
	there := map[string]bool{}
	for _, g := range list {
		if !ours[object.Text(g, "spec", "gatewayClassName")] || g.GetDeletionTimestamp() != nil {
			continue
		}
		there[g.GetNamespace()+"/"+g.GetName()] = true
		if err := i.programCiliumGateway(ctx, g, kept); err != nil {
			return 0, err
		}
	}
	return 0, i.acceptRoutes(ctx, there, ciliumController, "Accepted HTTPRoute")
}

// servesGateways is what the operator sees at its start: whether it is asked for Gateways, and all definitions are older than its pod.
func (i *instance) servesGateways(ctx context.Context) (bool, error) {
	config, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, "cilium-config", metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("cilium-config: %w", err)
	}
	if config.Data["enable-gateway-api"] != "true" || config.Data["kube-proxy-replacement"] != "true" {
		return false, nil
	}
	for _, kinds := range []string{"gatewayclasses", "gateways", "httproutes", "grpcroutes", "tlsroutes", "referencegrants", "backendtlspolicies"} {
		d, err := i.gatewayDefinition(ctx, kinds+".gateway.networking.k8s.io")
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("definitions: %w", err)
		}
		hasV1 := err == nil && slices.ContainsFunc(nestedList(d, "spec", "versions"), func(v map[string]any) bool { return v["name"] == "v1" })
		if !hasV1 || d.GetCreationTimestamp().After(i.pod.CreationTimestamp.Time) {
			i.Log.Info("Required GatewayAPI resources are not found, please refer to docs for installation instructions", "missing", kinds)
			return false, nil
		}
	}
	return true, nil
}

// answerGateways lets the operator's pod answer what comes in by a Gateway.
func (i *instance) answerGateways(ctx context.Context) {
	place := traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}
	context.AfterFunc(ctx, i.Traffic.Handle(place, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		if h := i.byRoute(host, ciliumController); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound) // without a text, as Envoy does
	})))
	context.AfterFunc(ctx, i.Traffic.Show(place, func(name string) *tls.Certificate { return i.listenerCertificate(ctx, name) }))
}

// programCiliumGateway makes the Service of a Gateway, and says how it is (operator/pkg/model/translation/gateway-api/translator.go,
// operator/pkg/gateway-api/status_listener.go, status_gateway_address.go).
func (i *instance) programCiliumGateway(ctx context.Context, g *unstructured.Unstructured, kept *ciliumFront) error {
	s := ciliumService(g)
	if err := i.apply(ctx, s); err != nil {
		return err
	}
	if name := s.GetNamespace() + "/" + s.GetName(); kept.services[name] == nil {
		kept.services[name] = i.Traffic.Front(s.GetNamespace(), s.GetName(), i.pod)
		context.AfterFunc(ctx, kept.services[name])
	}
	front, err := one[corev1.Service](i, services(), s.GetNamespace(), s.GetName())
	if err != nil {
		return err
	}
	var at []any
	if front != nil {
		for _, a := range front.Status.LoadBalancer.Ingress {
			at = append(at, map[string]any{"type": "IPAddress", "value": a.IP})
		}
	}
	states, valid := i.ciliumListeners(ctx, g, len(at) > 0)
	accepted, programmed := [3]string{"True", "Accepted", "Gateway successfully scheduled"}, [3]string{"True", "Programmed", "Gateway Programmed"}
	switch {
	case valid == 0:
		accepted, programmed = [3]string{"False", "ListenersNotValid", "No Accepted Listeners"}, [3]string{"False", "ListenersNotValid", "No Accepted Listeners"}
	case len(at) == 0:
		programmed = [3]string{"False", "AddressNotAssigned", "Gateway waiting for address"}
	}
	both := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": g.GetGeneration()},
		"status": map[string]any{"conditions": object.Conditions(g, true, "Accepted", accepted[0], accepted[1], accepted[2])}}}
	return i.patchStatus(ctx, g, map[string]any{"addresses": at, "listeners": states, "conditions": object.Conditions(both, true, "Programmed", programmed[0], programmed[1], programmed[2])})
}

// ciliumListeners are the states of a Gateway's listeners, and how many are valid.
func (i *instance) ciliumListeners(ctx context.Context, g *unstructured.Unstructured, addressed bool) (states []any, valid int) {
	for _, l := range nestedList(g, "spec", "listeners") {
		old := &unstructured.Unstructured{Object: map[string]any{}}
		for _, s := range nestedList(g, "status", "listeners") {
			if s["name"] == l["name"] {
				old.Object["status"] = s
			}
		}
		set := func(kind, status, reason, message string) {
			old.Object["status"] = map[string]any{"conditions": object.Conditions(old, false, kind, status, reason, message)}
		}
		if i.hasCertificate(ctx, g.GetNamespace(), l) {
			valid++
			set("ResolvedRefs", "True", "ResolvedRefs", "Resolved Refs")
			set("Accepted", "True", "Accepted", "Listener Accepted")
			if addressed {
				set("Programmed", "True", "Programmed", "Listener Programmed")
			} else {
				set("Programmed", "False", "Pending", "Address not ready yet")
			}
		} else {
			set("ResolvedRefs", "False", "InvalidCertificateRef", "Invalid CertificateRef")
			set("Accepted", "False", "InvalidCertificateRef", "Listener not valid. Invalid CertificateRef, it is not found")
			set("Programmed", "False", "Pending", "Address not ready yet")
		}
		conditions, _, _ := unstructured.NestedSlice(old.Object, "status", "conditions")
		states = append(states, map[string]any{"name": l["name"], "attachedRoutes": 0, "supportedKinds": []any{
			map[string]any{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}, map[string]any{"group": "gateway.networking.k8s.io", "kind": "GRPCRoute"}}, "conditions": conditions})
	}
	return states, valid
}

// ciliumService is the Service that Cilium makes for a Gateway. It selects no pods: Envoy takes its traffic.
func ciliumService(g *unstructured.Unstructured) *unstructured.Unstructured {
	ports, seen := []any{}, map[any]bool{}
	for _, l := range nestedList(g, "spec", "listeners") {
		if !seen[l["port"]] {
			seen[l["port"]] = true
			ports = append(ports, map[string]any{"name": fmt.Sprint("port-", l["port"]), "port": l["port"], "protocol": "TCP"})
		}
	}
	notes, _, _ := unstructured.NestedMap(g.Object, "spec", "infrastructure", "annotations")
	return object.New("v1", "Service", g.GetNamespace(), "cilium-gateway-"+g.GetName(), map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]any{"io.cilium.gateway/owning-gateway": g.GetName(), "gateway.networking.k8s.io/gateway-name": g.GetName()},
			"annotations": notes,
			"ownerReferences": []any{map[string]any{"apiVersion": g.GetAPIVersion(), "kind": "Gateway", "name": g.GetName(),
				"uid": string(g.GetUID()), "controller": true}},
		},
		"spec": map[string]any{"type": "LoadBalancer", "ports": ports},
	})
}

// hasCertificate reports whether the Secret is there that a listener names, if it does.
func (i *instance) hasCertificate(ctx context.Context, namespace string, listener map[string]any) bool {
	for _, ref := range nestedList(&unstructured.Unstructured{Object: listener}, "tls", "certificateRefs") {
		if name, _ := ref["name"].(string); i.Traffic.SecretPair(ctx, namespace, name) == nil {
			return false
		}
	}
	return true
}
