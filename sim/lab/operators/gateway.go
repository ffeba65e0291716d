package operators

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// gatewayStates sets the status of each of our Gateways, and of each route whether its Gateway
// accepted it.
func (i *instance) gatewayStates(ctx context.Context, addresses []corev1.LoadBalancerIngress) error {
	classes, err := all[unstructured.Unstructured](i, gatewayClasses())
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, c := range classes {
		if object.Text(c, "spec", "controllerName") != gatewayController {
			continue
		}
		ours[c.GetName()] = true
		if err := i.patchStatus(ctx, c, map[string]any{"conditions": object.Conditions(c, true, "Accepted", "True", "Accepted", "Handled by Traefik controller")}); err != nil {
			return err
		}
	}
	list, err := all[unstructured.Unstructured](i, gateways())
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, g := range list {
		if !ours[object.Text(g, "spec", "gatewayClassName")] {
			continue
		}
		there[g.GetNamespace()+"/"+g.GetName()] = true
		if err := i.programGateway(ctx, g, addresses); err != nil {
			return err
		}
	}
	return i.acceptRoutes(ctx, there, gatewayController, "No error found")
}

func (i *instance) programGateway(ctx context.Context, g *unstructured.Unstructured, addresses []corev1.LoadBalancerIngress) error {
	listeners, _, _ := unstructured.NestedSlice(g.Object, "spec", "listeners")
	var states []any
	whole := true
	for _, l := range listeners {
		m, _ := l.(map[string]any)
		status, reason, message := "True", "ResolvedRefs", "No error found"
		if why := i.listenerProblem(ctx, g.GetNamespace(), m); why != "" {
			status, reason, message, whole = "False", "InvalidCertificateRef", why, false
		}
		old := &unstructured.Unstructured{Object: map[string]any{}}
		for _, s := range nestedList(g, "status", "listeners") {
			if s["name"] == m["name"] {
				old.Object["status"] = s
			}
		}
		states = append(states, map[string]any{"name": m["name"], "attachedRoutes": 0, "supportedKinds": []any{map[string]any{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}},
			"conditions": object.Conditions(old, false, "ResolvedRefs", status, reason, message)})
	}
	var at []any
	for _, a := range addresses {
		at = append(at, map[string]any{"type": "IPAddress", "value": a.IP})
	}
	status, reason, message := "True", "Programmed", "Gateway successfully scheduled"
	if !whole || len(listeners) == 0 {
		status, reason, message = "False", "Invalid", "A listener of the Gateway is not valid"
	}
	accepted := object.Conditions(g, true, "Accepted", "True", "Accepted", "Gateway successfully scheduled")
	withBoth := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": g.GetGeneration()}, "status": map[string]any{"conditions": accepted}}}
	return i.patchStatus(ctx, g, map[string]any{"addresses": at, "listeners": states, "conditions": object.Conditions(withBoth, true, "Programmed", status, reason, message)})
}

// listenerProblem says what is wrong with a listener, in Traefik's words.
func (i *instance) listenerProblem(ctx context.Context, namespace string, listener map[string]any) string {
	if port, _ := listener["port"].(int64); port != 8000 && port != 8443 {
		return fmt.Sprintf("Cannot find entryPoint for Gateway: no matching entryPoint for port %d and protocol %q", port, listener["protocol"])
	}
	refs, _, _ := unstructured.NestedSlice(listener, "tls", "certificateRefs")
	for _, r := range refs {
		m, _ := r.(map[string]any)
		name, _ := m["name"].(string)
		if _, err := i.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return fmt.Sprintf("Error while retrieving certificate: fetching secret %s/%s: secret %s/%s does not exist", namespace, name, namespace, name)
		}
	}
	return ""
}

func nestedList(obj *unstructured.Unstructured, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(obj.Object, path...)
	var out []map[string]any
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// acceptRoutes says of each route that its Gateway, one of these, has accepted it.
func (i *instance) acceptRoutes(ctx context.Context, gateways map[string]bool, controller, message string) error {
	list, err := all[unstructured.Unstructured](i, routes())
	if err != nil {
		return err
	}
	for _, r := range list {
		var parents []any
		for _, ref := range nestedList(r, "spec", "parentRefs") {
			namespace, _ := ref["namespace"].(string)
			name, _ := ref["name"].(string)
			if !gateways[cmp.Or(namespace, r.GetNamespace())+"/"+name] {
				continue
			}
			old := &unstructured.Unstructured{Object: map[string]any{}}
			for _, p := range nestedList(r, "status", "parents") {
				if object.Within(p["parentRef"], ref) {
					old.Object["status"] = p
				}
			}
			parents = append(parents, map[string]any{"parentRef": ref, "controllerName": controller, "conditions": object.Conditions(old, false, "Accepted", "True", "Accepted", message)})
		}
		if len(parents) == 0 {
			continue
		}
		if err := i.patchStatus(ctx, r, map[string]any{"parents": parents}); err != nil {
			return err
		}
	}
	return nil
}
