package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/addon"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// recipe makes the parts of a platform from what the file says.
type recipe struct {
	spec    *Spec
	secrets bool                                        // they are read
	resolve func(at string, ref SecretRef) secret.Value // remembers what could not be read
	pieces  []piece
	errs    []error
}

// parts are those that the file asks for, each after those that it needs. Secrets
// are read only when with is set; else their places are empty.
func (s *Spec) parts(withSecrets bool) ([]piece, error) {
	r := &recipe{spec: s, secrets: withSecrets}
	r.resolve = func(at string, ref SecretRef) secret.Value {
		if ref.IsZero() {
			return secret.Value{}
		}
		if !withSecrets {
			return hidden(at, ref)
		}
		value, err := ref.Resolve()
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", at, err))
		}
		return value
	}
	p := &s.Platform
	r.network(p)
	r.storage(p)
	r.addresses(p)
	r.certificates(p)
	r.ingress(p)
	r.rancher(p)
	r.fleet(p)
	r.monitoring(p)
	r.backup(p)
	r.hub(p)
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	for i := range r.pieces {
		r.pieces[i].via = p.via(r.pieces[i])
	}
	for i, x := range r.pieces { // what Fleet stands on cannot wait for it, only be reached a little later
		if x.base {
			r.pieces[i].Needs = slices.DeleteFunc(slices.Clone(x.Needs), func(name string) bool {
				return slices.ContainsFunc(r.pieces, func(o piece) bool { return o.Name == name && o.via == ViaFleet })
			})
		}
	}
	r.gitops(p)
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return inOrder(r.pieces)
}

// via says how a part gets into the cluster. What Fleet needs itself, and what the
// nodes wait for, Fleet cannot bring.
func (p *Platform) via(x piece) string {
	if x.network || x.base || p.Fleet == nil || p.Fleet.Repo == "" {
		return ViaDirect
	}
	if via := p.Charts.Via[x.Name]; via != "" {
		return via
	}
	if p.Fleet.Default != "" {
		return p.Fleet.Default
	}
	return ViaDirect
}

// add takes a part, or remembers why there is none.
func (r *recipe) add(p chart.Part, err error, more ...func(*piece)) {
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	x := piece{Part: p}
	for _, m := range more {
		m(&x)
	}
	r.pieces = append(r.pieces, x)
}

// has reports whether a part is there already.
func (r *recipe) has(name string) bool {
	return slices.ContainsFunc(r.pieces, func(p piece) bool { return p.Name == name })
}

// common is what the file says about a part whatever it is.
func (r *recipe) common(part string) addon.Common {
	c := r.spec.Platform.Charts
	return addon.Common{Version: c.Versions[part], Values: c.Values[part], Taints: r.spec.taints(), Nodes: len(r.spec.Nodes)}
}

// taints are those of all nodes: whatever is deployed tolerates them (failure N5).
func (s *Spec) taints() []corev1.Taint {
	seen := map[string]bool{}
	var out []corev1.Taint
	for _, n := range s.Nodes {
		for _, t := range n.Taints {
			if !seen[t.String()] {
				seen[t.String()] = true
				out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
			}
		}
	}
	return out
}

// network is the pods' own, where it is not K3s' flannel.
func (r *recipe) network(p *Platform) {
	if p.CNI == nil {
		return
	}
	announces := p.LB != nil && p.LB.Kind == LBCilium
	part, err := addon.Cilium(addon.CiliumOptions{Common: r.common("cilium"), PodCIDR: r.spec.K3s.PodCIDR, Addresses: announces})
	r.add(part, err, func(x *piece) { x.network = true })
}

// storage are the classes of volumes.
func (r *recipe) storage(p *Platform) {
	s := p.Storage
	if n := s.NFS; n != nil {
		part, err := addon.NFS(addon.NFSOptions{
			Common: r.common(nfsPart), Class: n.Class, Server: n.Server, Export: n.Export, MountOptions: n.MountOptions,
			Delete: !n.Retain, Default: s.Default == n.Class,
		})
		r.add(part, err)
	}
	if l := s.Longhorn; l != nil {
		part, err := addon.Longhorn(addon.LonghornOptions{
			Common: r.common("longhorn"), Class: l.Class, Replicas: l.Replicas, DataPath: l.DataPath, DrainPolicy: l.DrainPolicy,
			Default: s.Default == l.Class,
		})
		r.add(part, err)
	}
	if c := s.CephFS; c != nil {
		part, err := addon.CephFS(addon.CephFSOptions{
			Common: r.common("cephfs"), Class: c.Class, ClusterID: c.ClusterID, Monitors: c.Monitors, FSName: c.FSName, Pool: c.Pool,
			User: c.User, Key: r.resolve("storage.cephfs.key", c.Key), Default: s.Default == c.Class,
		})
		r.add(part, err)
	}
	if x := s.Scratch; x != nil {
		paths := map[string]string{}
		for _, n := range x.Nodes {
			paths[n] = x.Path
		}
		part, err := addon.Scratch(addon.ScratchOptions{Common: r.common("scratch"), Class: x.Class, Paths: paths, Default: s.Default == x.Class})
		r.add(part, err)
	}
}

// addresses are those that Services get.
func (r *recipe) addresses(p *Platform) {
	if p.LB == nil {
		return
	}
	switch p.LB.Kind {
	case LBMetalLB:
		part, err := addon.MetalLB(addon.MetalLBOptions{Common: r.common("metallb"), Addresses: p.LB.Addresses, Reserved: p.LB.Reserved})
		r.add(part, err, func(x *piece) { x.replaces = []string{"cilium-pool"} })
	case LBCilium:
		part, err := addon.CiliumPool(addon.CiliumPoolOptions{Addresses: p.LB.Addresses, Reserved: p.LB.Reserved})
		r.add(part, err, func(x *piece) { x.replaces = []string{"metallb"} })
	}
}

// certificates are who signs them. With TLSSecret nobody does: there is one already.
func (r *recipe) certificates(p *Platform) {
	if p.TLS == nil || p.TLS.Source == TLSSecret {
		return
	}
	part, err := addon.CertManager(addon.CertManagerOptions{Common: r.common("cert-manager"), GatewayAPI: p.Ingress.Kind == IngressGateway})
	// A CA that the cluster makes itself is written into what goes to Git.
	base := func(x *piece) { x.base = p.Rancher != nil || p.TLS.Source == TLSSelfSigned }
	r.add(part, err, base)
	o := addon.IssuerOptions{Name: p.TLS.Issuer, Email: p.TLS.Email, Server: p.TLS.Server, Class: p.Ingress.Class}
	source := p.TLS.Source
	if source == TLSCA && !r.secrets {
		source = TLSSelfSigned // without its key there is no telling whether the pair is right
	}
	switch source {
	case TLSSelfSigned:
		o.Kind = addon.SelfSigned
	case TLSACME:
		o.Kind = addon.ACME
		if p.Ingress.Kind == IngressGateway {
			o.GatewayNamespace, o.GatewayName = r.gateway(p).Ref()
		}
	case TLSCA:
		o.Kind = addon.PrivateCA
		o.Certificate = r.file("tls.ca.cert", p.TLS.CACert)
		o.Key = r.resolve("tls.ca.key", p.TLS.CAKey)
	}
	part, err = addon.Issuer(o)
	r.add(part, err, base)
}

// file reads a file that the spec names.
func (r *recipe) file(at, path string) []byte {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", at, err))
	}
	return b
}

// gateway is the one Gateway that routes attach to.
func (r *recipe) gateway(p *Platform) addon.GatewayOptions {
	g := addon.GatewayOptions{Class: p.Ingress.Class, Hosts: p.hosts()}
	if p.TLS != nil && p.TLS.Source != TLSSecret {
		g.Issuer = p.TLS.Issuer
	}
	return g
}

// hosts are the names under which people reach something.
func (p *Platform) hosts() []string {
	var out []string
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if p.Hub != nil {
		add(p.Hub.Hostname)
	}
	if p.Monitoring != nil {
		add(p.Monitoring.Hostname)
	}
	return out
}

// ingress is how HTTP gets in. K3s' Traefik is there by itself; it is configured
// where there is something to say.
func (r *recipe) ingress(p *Platform) {
	if p.Ingress.Kind == IngressNone || len(p.hosts()) == 0 && p.Rancher == nil {
		return
	}
	o := addon.IngressOptions{Common: r.common("ingress"), GatewayAPI: p.Ingress.Kind == IngressGateway, HTTPS: p.TLS != nil}
	if p.LB != nil {
		o.LoadBalancer, o.Address = p.LB.Kind, p.LB.Reserved["ingress"]
	}
	if o.GatewayAPI {
		o.Gateway = r.gateway(p)
	}
	part, err := addon.Ingress(o)
	for _, name := range []string{"metallb", "cilium-pool"} {
		if r.has(name) {
			part.Needs = append(part.Needs, name)
		}
	}
	if o.GatewayAPI && r.has("issuer") && p.TLS.Source != TLSACME { // whose challenges come in by it
		part.Needs = append(part.Needs, "issuer")
	}
	r.add(part, err)
}

// rancher is the management UI, which brings its own Fleet.
func (r *recipe) rancher(p *Platform) {
	if p.Rancher == nil {
		return
	}
	o := addon.RancherOptions{
		Common: r.common("rancher"), Hostname: p.Rancher.Hostname, Replicas: p.Rancher.Replicas, Class: p.Ingress.Class,
		Gateway: p.Ingress.Kind == IngressGateway, Bootstrap: r.resolve("rancher.bootstrap", p.Rancher.Bootstrap),
	}
	if p.Rancher.Version != "" {
		o.Version = p.Rancher.Version
	}
	if p.TLS != nil {
		switch p.TLS.Source {
		case TLSSecret:
			o.TLS, o.CA = addon.RancherSecret, r.file("tls.ca.cert", p.TLS.CACert)
		case TLSACME:
			o.TLS, o.Issuer = addon.RancherIssuer, p.TLS.Issuer
		case TLSCA:
			o.TLS, o.Issuer, o.CA = addon.RancherIssuer, p.TLS.Issuer, r.file("tls.ca.cert", p.TLS.CACert)
		}
	}
	part, err := addon.Rancher(o)
	if r.has("ingress") {
		part.Needs = append(part.Needs, "ingress")
	}
	r.add(part, err, func(x *piece) {
		x.base, x.replaces = true, []string{"fleet", "fleet-crd"}
		if o.TLS == addon.RancherSecret {
			x.late = borrowing(part, p.TLS.Secret, rancherTLS)
		}
	})
}

// rancherTLS is the Secret with Rancher's certificate: its chart knows no other name.
const rancherTLS = "tls-rancher-ingress"

// backup is Velero.
func (r *recipe) backup(p *Platform) {
	b := p.Backup
	if b == nil {
		return
	}
	part, err := addon.Velero(addon.VeleroOptions{
		Common: r.common("velero"), Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Prefix: b.Prefix,
		AccessKey: r.resolve("backup.accessKey", b.AccessKey), SecretKey: r.resolve("backup.secretKey", b.SecretKey),
		CA: r.file("backup.ca", b.CAFile), Insecure: b.Insecure, Schedule: b.Schedule, Retention: b.Retention,
		Namespaces: b.Namespaces, FileSystem: b.FileSystem,
	})
	r.add(part, err)
}

// inOrder sorts parts so that each comes after those that it needs, and else as they
// are.
func inOrder(all []piece) ([]piece, error) {
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
	}
	var out []piece
	placed := map[string]bool{}
	for len(out) < len(all) {
		before := len(out)
		for _, p := range all {
			if placed[p.Name] || slices.ContainsFunc(p.Needs, func(n string) bool { return names[n] && !placed[n] }) {
				continue
			}
			out, placed[p.Name] = append(out, p), true
		}
		if len(out) == before {
			var rest []string
			for _, p := range all {
				if !placed[p.Name] {
					rest = append(rest, p.Name)
				}
			}
			return nil, fmt.Errorf("parts wait for each other: %s", strings.Join(rest, ", "))
		}
	}
	return out, nil
}

// now is a part with all that only a living cluster can tell.
func (p piece) now(ctx context.Context, client *kube.Client) (piece, error) {
	if p.late == nil {
		return p, nil
	}
	part, err := p.late(ctx, client)
	p.Part = part
	return p, err
}
