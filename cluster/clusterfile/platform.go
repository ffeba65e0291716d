package clusterfile

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/kube/chart/pins"
)

// platform resolves what runs on Kubernetes. It comes after the nodes, because most defaults
// depend on them.
func (r *resolver) platform() {
	r.charts()
	r.cni()
	r.storage()
	r.loadBalancer()
	r.ingress()
	r.tls()
	r.rancher()
	r.fleet()
	r.monitoring()
	r.backup()
	r.hub()
	r.queues()
	r.withoutBuiltIn()
}

// chartVersion matches an exact chart version (SemVer 2, with an optional leading v).
const chartVersion = `^v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`

func (r *resolver) charts() {
	raw := &r.spec.Platform.Charts
	raw.Folder = r.existing(&raw.Folder, raw.Folder, true)
	if raw.Offline && raw.Folder == "" && !r.spec.IsLab() {
		r.Wrong(&raw.Offline, "no repository may be asked for charts, and no folder has them", "write folder: beside it, with a chart of each part")
	}
	for _, name := range sortedNames(raw.Versions) {
		at := r.MemberAt(&raw.Versions, name)
		r.partName(at, name)
		r.chartVersion(at, name, raw.Versions[name])
	}
	for _, name := range sortedNames(raw.Digests) {
		at := r.MemberAt(&raw.Digests, name)
		r.partName(at, name)
		if !matches(`^sha256:[0-9a-f]{64}$`, raw.Digests[name]) {
			r.Wrong(at, fmt.Sprintf("%q is not a digest of a chart", raw.Digests[name]), "write sha256: and the 64 digits that sha256sum prints of the archive")
		}
	}
	for _, name := range sortedNames(raw.Values) {
		at := r.MemberAt(&raw.Values, name)
		r.partName(at, name)
		if key := decode.LiteralSecret(raw.Values[name]); key != "" {
			r.Wrong(at, fmt.Sprintf("the values of %s have a secret under %s", name, key), "make a Secret in the cluster, and write the chart's key that names one (existingSecret and the like)")
		}
	}
	for _, name := range sortedNames(raw.Via) {
		at := r.MemberAt(&raw.Via, name)
		r.partName(at, name)
		if via := raw.Via[name]; via != spec.ViaDirect && via != spec.ViaFleet {
			r.Wrong(at, fmt.Sprintf("a part cannot be deployed via %q", via), decode.OrSuggest(via, []string{spec.ViaDirect, spec.ViaFleet}))
		}
	}
}

func (r *resolver) chartVersion(at any, name, version string) {
	if version != "" && !matches(chartVersion, version) {
		r.Wrong(at, fmt.Sprintf("%q is not an exact version of a chart", version), "write it in full, e.g. "+pinned(name))
	}
}

// pinned is the default version of a part's chart.
func pinned(part string) string {
	p, _ := pins.Of(part)
	return cmp.Or(p.Version, "1.2.3")
}

// partNames are the names of parts with a chart, as in charts.via, charts.versions and
// charts.values.
func partNames() []string {
	var out []string
	for _, p := range pins.All() {
		out = append(out, p.Name)
	}
	return out
}

func (r *resolver) partName(at any, name string) {
	known := partNames()
	if slices.Contains(known, name) {
		return
	}
	cure := decode.OrSuggest(name, known)
	if usual := decode.PartHabits[suggest.Plain(name)]; usual != "" {
		cure = fmt.Sprintf("the part is called %q", usual)
	}
	r.Wrong(at, fmt.Sprintf("there is no part %q", name), cure)
}

// cni resolves the pods' network. Cilium replaces flannel, K3s' network policies and
// kube-proxy; this sets the settings of K3s for that. Source: docs.cilium.io, "Installation
// using K3s" (1.20).
func (r *resolver) cni() {
	k := &r.spec.K3s
	if !k.Cilium() {
		if k.CNI == "flannel" && k.FlannelBackend == "none" {
			r.Wrong(&k.FlannelBackend, "the pod network is flannel, and flannel is disabled", "remove flannelBackend, or write cni: cilium")
		}
		return
	}
	if r.IsSet(&k.FlannelBackend) && k.FlannelBackend != "none" {
		r.Wrong(&k.FlannelBackend, fmt.Sprintf("Cilium and flannel (%s) would both be the pods' network", k.FlannelBackend), "remove flannelBackend: cni: cilium disables flannel")
	}
	k.FlannelBackend = "none"
	server := map[string]any{}
	maps.Copy(server, k.ServerConfig)
	for _, key := range []string{"disable-network-policy", "disable-kube-proxy"} {
		if on, said := server[key].(bool); said && !on {
			r.Wrong(r.MemberAt(&k.ServerConfig, key), "Cilium replaces what this keeps", "remove "+key)
		}
		server[key] = true
	}
	k.ServerConfig = server
}

func (r *resolver) loadBalancer() {
	lb := r.spec.Platform.LB
	if lb == nil {
		return
	}
	switch {
	case lb.Kind != "":
	case len(lb.Addresses) == 0:
		lb.Kind = spec.LBServiceLB
	case r.spec.K3s.Cilium():
		lb.Kind = spec.LBCilium
	default:
		lb.Kind = spec.LBMetalLB
	}
	switch {
	case lb.Kind == spec.LBServiceLB && len(lb.Addresses) > 0:
		r.Wrong(&lb.Addresses, "servicelb uses the nodes' own addresses and has no others to give", "write kind: metallb, or remove addresses")
	case lb.Kind == spec.LBServiceLB && len(lb.Reserved) > 0:
		r.Wrong(&lb.Reserved, "servicelb uses the nodes' own addresses and can reserve none", "write kind: metallb with addresses, or remove reserved")
	case lb.Kind != spec.LBServiceLB && len(lb.Addresses) == 0:
		r.Wrong(&lb.Addresses, fmt.Sprintf("%s has no addresses to assign", lb.Kind), "write addresses: [10.0.0.200-10.0.0.219], an unused range of the nodes' network")
	case lb.Kind == spec.LBCilium && !r.spec.K3s.Cilium():
		r.Wrong(&lb.Kind, "Cilium's load balancer is a part of Cilium, which is not the pods' network", "write k3s: {cni: cilium}, or kind: metallb")
	case lb.Kind == spec.LBMetalLB && r.spec.K3s.Cilium():
		r.Warn(&lb.Kind, "Cilium has a load balancer of its own", "write kind: cilium, which needs no MetalLB")
	}
	if lb.Kind == spec.LBServiceLB && slices.Contains(r.disabled, "servicelb") {
		r.Wrong(&lb.Kind, "the load balancer is K3s' servicelb, and k3s.disable disables it", "remove servicelb from k3s.disable, or write kind: metallb with addresses")
	}
}

func (r *resolver) ingress() {
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
	case in.Kind != spec.IngressNone && disabled:
		r.Wrong(in, fmt.Sprintf("ingress %s is served by K3s' Traefik, and k3s.disable disables it", in.Kind), "remove traefik from k3s.disable, or write ingress: none")
	}
	if in.Kind != spec.IngressNone {
		in.Class = cmp.Or(in.Class, "traefik")
	}
}

// withoutBuiltIn disables parts of K3s that another part replaces.
func (r *resolver) withoutBuiltIn() {
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

func (r *resolver) tls() {
	raw := r.spec.Platform.TLS
	if raw == nil {
		if r.spec.Platform.Rancher != nil { // Rancher's agents connect only over TLS
			r.spec.Platform.TLS = &spec.TLS{Source: spec.TLSSelfSigned, Issuer: defaultIssuer}
		}
		return
	}
	t := raw
	t.Source = cmp.Or(t.Source, tlsSource(t))
	t.CACert = r.existing(&t.CACert, t.CACert, false)
	r.isURL(&t.Server, "https")
	if t.Issuer != "" && !decode.IsDNSName(t.Issuer) {
		r.Wrong(&t.Issuer, fmt.Sprintf("%q cannot be an issuer's name", t.Issuer), "write lower-case letters, digits and hyphens")
	}
	r.tlsKeys(t)
	switch t.Source {
	case spec.TLSSecret:
		t.Issuer = ""
	case spec.TLSACME:
		t.Server = cmp.Or(t.Server, letsEncrypt)
		fallthrough
	default:
		t.Issuer = cmp.Or(t.Issuer, defaultIssuer)
	}
}

// tlsSource is the source of a section that names none.
func tlsSource(t *spec.TLS) string {
	switch {
	case t.Secret != "":
		return spec.TLSSecret
	case t.Email+t.Server != "":
		return spec.TLSACME
	case t.CACert != "" || !t.CAKey.IsZero():
		return spec.TLSCA
	default:
		return spec.TLSSelfSigned
	}
}

const (
	defaultIssuer = "homelab"
	letsEncrypt   = "https://acme-v02.api.letsencrypt.org/directory"
)

// tlsKeys checks that a source has the keys that it needs, and no others.
func (r *resolver) tlsKeys(raw *spec.TLS) {
	switch raw.Source {
	case spec.TLSACME:
		if raw.Email == "" {
			r.Wrong(&raw.Email, "acme has no email", "write email: and an address that you read: it gets warnings about expiring certificates")
		} else if !matches(`^[^@\s]+@[^@\s]+\.[^@\s]+$`, raw.Email) {
			r.Wrong(&raw.Email, fmt.Sprintf("%q is not an address", raw.Email), "write name@domain")
		}
	case spec.TLSCA:
		if raw.CACert == "" {
			r.Wrong(&raw.CACert, "tls has no certificate of the authority", "write ca: and the PEM file of its certificate")
		}
		if !r.IsSet(&raw.CAKey) {
			r.Wrong(&raw.CAKey, "tls has no key of the authority", "write key: file:PATH with its private key, or key: env:NAME")
		}
		r.holdsCertificate(&raw.CACert)
	case spec.TLSSecret:
		if namespace, name, ok := strings.Cut(raw.Secret, "/"); !ok || !decode.DNSLabel.MatchString(namespace) || !decode.IsDNSName(name) {
			r.Wrong(&raw.Secret, "tls names no Secret", "write secret: namespace/name of a Secret of type kubernetes.io/tls")
		}
		r.holdsCertificate(&raw.CACert)
	}
	for _, k := range []struct {
		at    any
		name  string
		means []string
	}{
		{&raw.Email, "email", []string{spec.TLSACME}}, {&raw.Server, "server", []string{spec.TLSACME}}, {&raw.CACert, "ca", []string{spec.TLSCA, spec.TLSSecret}},
		{&raw.CAKey, "key", []string{spec.TLSCA}}, {&raw.Secret, "secret", []string{spec.TLSSecret}}, {&raw.Issuer, "issuer", []string{spec.TLSSelfSigned, spec.TLSACME, spec.TLSCA}},
	} {
		if r.IsSet(k.at) && !slices.Contains(k.means, raw.Source) {
			r.Wrong(k.at, fmt.Sprintf("%s has no effect with source %s", k.name, raw.Source), "remove it, or write source: "+suggest.OneOf(k.means))
		}
	}
}

// holdsCertificate checks that an existing file contains a certificate, and no key.
func (r *resolver) holdsCertificate(at *string) {
	if _, err := os.Stat(r.path(*at)); *at == "" || err != nil {
		return // said elsewhere
	}
	text, ok := r.source(at, *at)
	switch {
	case !ok:
	case strings.Contains(text, "PRIVATE KEY"):
		r.Wrong(at, "this file contains a private key, and its content is public", "keep only certificates in it; the key belongs in a file of its own")
	case !strings.Contains(text, "BEGIN CERTIFICATE"):
		r.Wrong(at, "this file contains no certificate in PEM", "name a file that begins with -----BEGIN CERTIFICATE-----")
	}
}
