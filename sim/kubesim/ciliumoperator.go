package kubesim

// ciliumOperator makes what Cilium's operator makes at its start, once its pod runs: the kinds of cilium.io, which are in
// no chart (operator/cmd/root.go, CreateCustomResourceDefinitions of pkg/k8s/apis/cilium.io/client/register.go). Those
// without a use here are left out.
func (c *machines) ciliumOperator() {
	if !c.runsImage("cilium/operator-generic:") {
		return
	}
	for _, k := range []struct{ kind, plural, version, scope string }{
		{"CiliumLoadBalancerIPPool", "ciliumloadbalancerippools", "v2", "Cluster"}, {"CiliumL2AnnouncementPolicy", "ciliuml2announcementpolicies", "v2alpha1", "Cluster"},
		{"CiliumNetworkPolicy", "ciliumnetworkpolicies", "v2", "Namespaced"}, {"CiliumNode", "ciliumnodes", "v2", "Cluster"},
	} {
		name := k.plural + ".cilium.io"
		if c.get(crds[0], "", name) != nil {
			continue
		}
		c.put(crds[0], map[string]any{
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"group": "cilium.io", "scope": k.scope, "names": map[string]any{"kind": k.kind, "plural": k.plural},
				"versions": []any{map[string]any{"name": k.version, "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			},
		})
	}
}
