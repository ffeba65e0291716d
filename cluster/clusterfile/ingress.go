package clusterfile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/certs"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/k3s"
)

// ingressSection completes and checks ingress, and the names that people reach.
type ingressSection struct{ *resolver }

// hostnames checks that no two parts have the same hostname.
func (r ingressSection) hostnames() {
	seen := map[string]any{}
	check := func(at *string) {
		if *at != "" {
			unique(r.resolver, seen, *at, any(at), fmt.Sprintf("%s is the hostname of another part", *at), "write another name for one of them: the name alone selects the part")
		}
	}
	if raw := r.spec.Platform.Rancher; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.Hub; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.Monitoring; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.Login; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.ModelGateway; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.ModelChat; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.ArgoCD; raw != nil {
		check(&raw.Hostname)
	}
}

// checkHostnames checks that parts with a hostname can be reached, and not in the clear.
func (r ingressSection) checkHostnames() {
	p := r.spec.Platform
	var at []*string
	if p.Rancher != nil {
		at = append(at, &r.spec.Platform.Rancher.Hostname)
	}
	if p.Hub != nil {
		at = append(at, &r.spec.Platform.Hub.Hostname)
	}
	if p.Monitoring != nil && p.Monitoring.Hostname != "" {
		at = append(at, &r.spec.Platform.Monitoring.Hostname)
	}
	if p.Login != nil && p.Login.Provider == nil {
		at = append(at, &r.spec.Platform.Login.Hostname)
	}
	if p.ModelGateway != nil && p.ModelGateway.Hostname != "" {
		at = append(at, &r.spec.Platform.ModelGateway.Hostname)
	}
	if p.ModelChat != nil {
		at = append(at, &r.spec.Platform.ModelChat.Hostname)
	}
	if p.ArgoCDHasPages() {
		at = append(at, &r.spec.Platform.ArgoCD.Hostname)
	}
	for _, a := range at {
		// The hub's own proxy can be a Service with an address; the others have none.
		alone := r.spec.Platform.Hub != nil && a == &r.spec.Platform.Hub.Hostname && (p.LB != nil || !slices.Contains(r.disabled, "servicelb"))
		if p.Ingress.Kind == spec.IngressNone && !alone {
			cure := "remove traefik from k3s.disable and ingress: none, or the part"
			if r.bare {
				cure = "remove the part, which has no address of its own; for the hub, write loadBalancer"
			}
			r.Wrong(a, fmt.Sprintf("nothing routes to %s: there is no ingress", *a), cure)
		}
		if p.TLS == nil && !r.spec.IsLab() {
			r.Warn(a, fmt.Sprintf("people log in to %s without TLS, for the whole network to read", *a), "write tls: self-signed, or a better source")
		}
	}
	certs.CheckNames(r.Checker, &p, at)
	if p.TLS == nil && r.IsSet(&r.spec.Platform.TLS) && len(at) == 0 {
		r.Warn(&r.spec.Platform.TLS, "nothing has a hostname, so nothing needs a certificate", "remove tls")
	}
}

func (r ingressSection) ingress() {
	in, disabled := &r.spec.Platform.Ingress, slices.Contains(r.disabled, "traefik")
	if !r.IsSet(in) && disabled {
		in.Kind = spec.IngressNone
	}
	if in.Class != "" && !decode.IsDNSName(in.Class) {
		r.Wrong(&in.Class, fmt.Sprintf("%q cannot be a class's name", in.Class), "write e.g. traefik")
	}
	switch {
	case in.Kind == spec.IngressNone && in.Class != "":
		r.Wrong(&in.Class, "there is no ingress, so it has no class", "remove class, or write kind: traefik")
	case in.By != "" && in.Kind != spec.IngressGateway:
		r.Wrong(&in.By, "by says who serves the Gateway API, and this is ingress: "+in.Kind, "write kind: gateway, or remove by")
	case in.ByCilium():
		r.gatewayByCilium(disabled)
	case in.Kind != spec.IngressNone && disabled:
		why, cure := r.missing("traefik", "write ingress: none")
		r.Wrong(in, fmt.Sprintf("ingress %s is served by Traefik, which %s", in.Kind, why), cure)
	}
	switch {
	case in.ByCilium():
		in.Class = spec.GatewayCilium
	case in.Kind != spec.IngressNone:
		in.Class = cmp.Or(in.Class, "traefik")
	}
}

// withCiliumsDefinitions is the K3s whose Traefik brings definitions of the Gateway API in the versions that Cilium looks for: it
// overwrites others with them (k3s-io/k3s pull 14134: those of 1.5; before, of 1.4 without TLSRoute).
const withCiliumsDefinitions = "v1.36.2+k3s1"

// gatewayByCilium checks what Cilium needs for the Gateway API.
func (r ingressSection) gatewayByCilium(withoutTraefik bool) {
	in, lb, version := &r.spec.Platform.Ingress, r.spec.Platform.LB, r.spec.K3s.Version
	if in.Class != "" && in.Class != spec.GatewayCilium {
		r.Wrong(&in.Class, "Cilium's chart calls its class of Gateways cilium", "remove class")
	}
	switch {
	case !r.spec.K3s.Cilium():
		r.Wrong(&in.By, "Cilium is not the pods' network, so it serves no Gateway", "write by: traefik; or for a new cluster, k3s: {cni: cilium}")
	case lb == nil || lb.Kind == spec.LBServiceLB:
		r.Wrong(&in.By, "Cilium's Gateway is a Service of its own with the ports 80 and 443, and has no address: servicelb gives these ports of the nodes to Traefik",
			"write loadBalancer: {addresses: [10.0.0.200-10.0.0.219]}, an unused range of the nodes' network; or by: traefik")
	case !withoutTraefik && spec.IsK3sVersion(version) && k3s.CompareVersions(version, withCiliumsDefinitions) < 0:
		r.Wrong(&in.By, fmt.Sprintf("Traefik of K3s %s brings definitions of the Gateway API that Cilium does not take", version),
			"write k3s: {version: "+k3s.DefaultVersion+"}, or by: traefik")
	}
}

// withoutBuiltIn disables parts of K3s that another part replaces.
func (r ingressSection) withoutBuiltIn() {
	p, off := r.spec.Platform, slices.Clone(r.spec.K3s.Disable)
	leaveOut := func(component string) {
		if !slices.Contains(off, component) {
			off = append(off, component)
		}
	}
	if p.LB != nil && p.LB.Kind != spec.LBServiceLB {
		leaveOut("servicelb")
	}
	if p.Ingress.Kind == spec.IngressNone {
		leaveOut("traefik")
	}
	if p.Storage.Default != "" {
		leaveOut("local-storage")
	}
	r.spec.K3s.Disable = off
}
