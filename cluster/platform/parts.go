package platform

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// recipe makes the parts of a platform from the file.
type recipe struct {
	spec    *spec.Spec
	secrets bool                                             // secrets are read
	resolve func(at string, ref spec.SecretRef) secret.Value // records secrets that could not be read
	pieces  []Piece
	errs    []error
}

// Pieces returns the parts that the file asks for, each after those that it needs. Secrets are read
// only if withSecrets is set; otherwise their values are empty.
func Pieces(s *spec.Spec, withSecrets bool) ([]Piece, error) {
	r := &recipe{spec: s, secrets: withSecrets}
	r.resolve = func(at string, ref spec.SecretRef) secret.Value {
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
	r.gpuOperator()
	r.storage(p)
	r.addresses(p)
	r.certificates(p)
	r.ingress(p)
	r.rancher(p)
	r.fleet(p)
	r.monitoring(p)
	r.backup(p)
	r.queues(p)
	r.hub(p)
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	for i := range r.pieces {
		r.pieces[i].Via = viaOf(p, r.pieces[i])
	}
	for i, x := range r.pieces { // Fleet's own dependencies cannot wait for it, only be ready a little later
		if x.Base {
			r.pieces[i].Needs = slices.DeleteFunc(slices.Clone(x.Needs), func(name string) bool {
				return slices.ContainsFunc(r.pieces, func(o Piece) bool { return o.Name == name && o.Via == spec.ViaFleet })
			})
		}
	}
	r.gitops(p)
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return inOrder(r.pieces)
}

// viaOf says how a part is installed in the cluster. Fleet cannot install its own dependencies, or
// parts that the nodes wait for.
func viaOf(p *spec.Platform, x Piece) string {
	if x.Network || x.Offers || x.Base || p.Fleet == nil || p.Fleet.Repo == "" {
		return spec.ViaDirect
	}
	if via := p.Charts.Via[x.Name]; via != "" {
		return via
	}
	if p.Fleet.Default != "" {
		return p.Fleet.Default
	}
	return spec.ViaDirect
}

// add adds a part, or records why there is none.
func (r *recipe) add(p chart.Part, err error, more ...func(*Piece)) {
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	x := Piece{Part: p}
	for _, m := range more {
		m(&x)
	}
	r.pieces = append(r.pieces, x)
}

// has reports whether a part was added.
func (r *recipe) has(name string) bool {
	return slices.ContainsFunc(r.pieces, func(p Piece) bool { return p.Name == name })
}

// common returns the options in the file that every part has.
func (r *recipe) common(part string) addon.Common {
	c := r.spec.Platform.Charts
	return addon.Common{Version: c.Versions[part], Values: c.Values[part], Taints: Taints(r.spec), Nodes: len(r.spec.Nodes)}
}

// Taints returns the taints of all nodes: everything that is deployed tolerates them (failure N5).
func Taints(s *spec.Spec) []corev1.Taint {
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

// network adds the pods' network, unless it is K3s' flannel.
func (r *recipe) network(p *spec.Platform) {
	if !r.spec.K3s.Cilium() {
		return
	}
	announces := p.LB != nil && p.LB.Kind == spec.LBCilium
	part, err := addon.Cilium(addon.CiliumOptions{Common: r.common("cilium"), PodCIDR: r.spec.K3s.PodCIDR, Addresses: announces})
	r.add(part, err, func(x *Piece) { x.Network = true })
}

// storage adds the storage classes.
func (r *recipe) storage(p *spec.Platform) {
	s := p.Storage
	if n := s.NFS; n != nil {
		part, err := addon.NFS(addon.NFSOptions{
			Common: r.common(NFS), Class: n.Class, Server: n.Server, Export: n.Export, MountOptions: n.MountOptions,
			Delete: !n.Retain.IsOn(), Default: s.Default == n.Class,
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

// addresses adds the part that gives addresses to Services.
func (r *recipe) addresses(p *spec.Platform) {
	if p.LB == nil {
		return
	}
	switch p.LB.Kind {
	case spec.LBMetalLB:
		part, err := addon.MetalLB(addon.MetalLBOptions{Common: r.common("metallb"), Addresses: p.LB.Ranges(), Reserved: p.LB.Reserved})
		r.add(part, err, func(x *Piece) { x.Replaces = []string{"cilium-pool"} })
	case spec.LBCilium:
		part, err := addon.CiliumPool(addon.CiliumPoolOptions{Addresses: p.LB.Ranges(), Reserved: p.LB.Reserved})
		r.add(part, err, func(x *Piece) { x.Replaces = []string{"metallb"} })
	}
}

// certificates adds the part that signs certificates. TLSSecret needs none: the certificate exists
// already.
func (r *recipe) certificates(p *spec.Platform) {
	if p.TLS == nil || p.TLS.Source == spec.TLSSecret {
		return
	}
	part, err := addon.CertManager(addon.CertManagerOptions{Common: r.common("cert-manager"), GatewayAPI: p.Ingress.Kind == spec.IngressGateway})
	// A CA that the cluster makes itself is written to the files for Git.
	base := func(x *Piece) { x.Base = p.Rancher != nil || p.TLS.Source == spec.TLSSelfSigned }
	r.add(part, err, base)
	o := addon.IssuerOptions{Name: p.TLS.Issuer, Email: p.TLS.Email, Server: p.TLS.Server, Class: p.Ingress.Class}
	source := p.TLS.Source
	if source == spec.TLSCA && !r.secrets {
		source = spec.TLSSelfSigned // without the key the pair cannot be checked
	}
	switch source {
	case spec.TLSSelfSigned:
		o.Kind = addon.SelfSigned
	case spec.TLSACME:
		o.Kind = addon.ACME
		if p.Ingress.Kind == spec.IngressGateway {
			o.GatewayNamespace, o.GatewayName = r.gateway(p).Ref()
		}
	case spec.TLSCA:
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
	b, err := limit.File(path, limit.Named)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", at, err))
	}
	return b
}

// gateway returns the options of the one Gateway that routes attach to.
func (r *recipe) gateway(p *spec.Platform) addon.GatewayOptions {
	g := addon.GatewayOptions{Class: p.Ingress.Class, Hosts: hostnamesOf(p)}
	if p.TLS != nil && p.TLS.Source != spec.TLSSecret {
		g.Issuer = p.TLS.Issuer
	}
	return g
}

// hostnamesOf returns the host names of the parts with a web interface.
func hostnamesOf(p *spec.Platform) []string {
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

// ingress adds the part that routes HTTP. K3s includes Traefik; it is configured only if an option
// needs it.
func (r *recipe) ingress(p *spec.Platform) {
	if p.Ingress.Kind == spec.IngressNone || len(hostnamesOf(p)) == 0 && p.Rancher == nil {
		return
	}
	o := addon.IngressOptions{Common: r.common("ingress"), GatewayAPI: p.Ingress.Kind == spec.IngressGateway, HTTPS: p.TLS != nil}
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
	if o.GatewayAPI && r.has("issuer") && p.TLS.Source != spec.TLSACME { // whose challenges come in by it
		part.Needs = append(part.Needs, "issuer")
	}
	r.add(part, err)
}

// rancher adds the management UI, which includes its own Fleet.
func (r *recipe) rancher(p *spec.Platform) {
	if p.Rancher == nil {
		return
	}
	o := addon.RancherOptions{
		Common: r.common("rancher"), Hostname: p.Rancher.Hostname, Replicas: p.Rancher.Replicas, Class: p.Ingress.Class,
		Gateway: p.Ingress.Kind == spec.IngressGateway, Bootstrap: r.resolve("rancher.bootstrap", p.Rancher.Bootstrap),
	}
	if p.Rancher.Version != "" {
		o.Version = p.Rancher.Version
	}
	if p.TLS != nil {
		switch p.TLS.Source {
		case spec.TLSSecret:
			o.TLS, o.CA = addon.RancherSecret, r.file("tls.ca.cert", p.TLS.CACert)
		case spec.TLSACME:
			o.TLS, o.Issuer = addon.RancherIssuer, p.TLS.Issuer
		case spec.TLSCA:
			o.TLS, o.Issuer, o.CA = addon.RancherIssuer, p.TLS.Issuer, r.file("tls.ca.cert", p.TLS.CACert)
		}
	}
	part, err := addon.Rancher(o)
	if r.has("ingress") {
		part.Needs = append(part.Needs, "ingress")
	}
	r.add(part, err, func(x *Piece) {
		x.Base, x.Replaces = true, []string{"fleet", "fleet-crd"}
		if o.TLS == addon.RancherSecret {
			x.Late = borrowing(part, p.TLS.Secret, rancherTLS)
		}
	})
}

// rancherTLS is the Secret with Rancher's certificate. Its chart requires this name.
const rancherTLS = "tls-rancher-ingress"

// backup adds Velero.
func (r *recipe) backup(p *spec.Platform) {
	b := p.Backup
	if b == nil {
		return
	}
	part, err := addon.Velero(addon.VeleroOptions{
		Common: r.common("velero"), Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Prefix: b.Prefix,
		AccessKey: r.resolve("backup.accessKey", b.AccessKey), SecretKey: r.resolve("backup.secretKey", b.SecretKey),
		CA: r.file("backup.ca", b.CAFile), Insecure: b.Insecure, Schedule: b.Schedule, Retention: b.Retention,
		Namespaces: b.Namespaces, FileSystem: b.FileSystem.IsOn(),
	})
	r.add(part, err)
}

// HasPlatform reports whether the file asks for anything in addition to Kubernetes and GPUs.
func HasPlatform(s *spec.Spec) bool {
	pieces, err := Pieces(s, false)
	return err != nil || len(pieces) > 0
}

// PartsOn lists the parts with a chart that this file turns on, by name.
func PartsOn(s *spec.Spec) []string {
	p := s.Platform
	var out []string
	add := func(on bool, names ...string) {
		if on {
			out = append(out, names...)
		}
	}
	add(p.Storage.NFS != nil, "nfs")
	add(p.Storage.Scratch != nil, "scratch")
	add(p.Storage.Longhorn != nil, "longhorn")
	add(p.Storage.CephFS != nil, "cephfs")
	add(s.K3s.Cilium(), "cilium")
	add(p.LB != nil && p.LB.Kind == spec.LBMetalLB, "metallb")
	add(p.TLS != nil && p.TLS.Source != spec.TLSSecret, "cert-manager")
	add(p.Rancher != nil, "rancher")
	add(p.Fleet != nil && p.Fleet.Standalone.IsOn() && p.Rancher == nil, "fleet", "fleet-crd")
	add(p.Monitoring != nil, "monitoring")
	add(p.Monitoring != nil && p.Monitoring.GPUs.IsOn() && !HasGPUOperator(s), "dcgm-exporter")
	add(HasGPUOperator(s), GPUOperator)
	add(p.Backup != nil, "velero")
	add(len(p.Queues) > 0, Kueue)
	add(p.Hub != nil, "jupyterhub")
	return out
}

// IsOn reports whether a section of the file turns the part on, so that messages can point at it.
func IsOn(p *spec.Platform, part string) bool {
	for _, name := range PartsOn((&spec.Spec{Platform: *p})) {
		if name == part {
			return true
		}
	}
	return false
}

// hidden stands for a secret whose value is not used, in the required format.
func hidden(at string, ref spec.SecretRef) secret.Value {
	switch {
	case ref.IsZero():
		return secret.Value{}
	case at == "hub.database.url":
		return secret.New("postgresql://hub:hidden@db/hub")
	}
	return secret.New("to be read when it is needed")
}
