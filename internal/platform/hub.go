package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// hubTLS is the Secret with the hub's certificate.
const hubTLS = "hub-tls"

// hub is JupyterHub.
type hub struct{ spec *spec.Spec }

func (h hub) Info() addon.Info {
	i := addon.Info{Name: "jupyterhub", Section: "hub", On: h.spec.Platform.Hub != nil, Namespace: "jupyterhub", Chart: jupyterhub.Pin(),
		NeverInArgo: "its chart keeps the secrets that it makes by looking them up, which Argo CD cannot: they would be new at every sync"}
	if i.On {
		i.Namespace = h.spec.Platform.Hub.Namespace
	}
	return i
}

func (h hub) Make(s *addon.Site) (addon.Recipe, error) {
	p := &h.spec.Platform
	its, err := hubOf(h.spec, s)
	if err != nil {
		return addon.Recipe{}, err
	}
	part, err := its.Part()
	if err != nil {
		return addon.Recipe{}, fmt.Errorf("jupyterhub: %w", err)
	}
	part.Needs = hubNeeds(p, s)
	var proof func(context.Context, *kube.Client) (secret.Value, error)
	if its.SignsIn {
		if proof, err = s.ClientSecret(p.Login, spec.LoginHub); err != nil {
			return addon.Recipe{}, err
		}
	}
	out := addon.Recipe{Part: part, Late: hubFromCluster(p, its, part.Needs, proof), Assumes: assumedOfHub(p, its),
		Web: &addon.Web{Title: "notebooks", URL: its.URL()}}
	if its.SignsIn {
		out.Web.Login = p.Issuer().Origin()
	}
	for _, n := range its.GeneratedSecrets() {
		out.Passwords = append(out.Passwords, addon.Password(n))
	}
	return out, nil
}

// asksIssuer reports whether the provider's addresses come from what it publishes.
func asksIssuer(h jupyterhub.Hub) bool {
	return h.Auth.Kind == spec.AuthOIDC && h.Auth.OIDC != nil && h.Endpoints != endpointsOfFile(h.Auth.OIDC)
}

// assumedOfHub are assumptions about the hub that do not follow from the file.
func assumedOfHub(p *spec.Platform, h jupyterhub.Hub) []string {
	var out []string
	if asksIssuer(h) {
		out = append(out, fmt.Sprintf("the addresses of %s stand for those that it publishes", p.Hub.Auth.OIDC.Issuer))
	}
	if p.TLS != nil && p.TLS.Source == spec.TLSSelfSigned {
		out = append(out, "the hub trusts the public authorities alone: the cluster's own is made in the cluster")
	}
	return out
}

// hubNeeds returns the parts that provide the hub's storage classes, certificates and ingress.
func hubNeeds(p *spec.Platform, s *addon.Site) []string {
	var needs []string
	add := func(name string) {
		if s.Has(name) && !slices.Contains(needs, name) {
			needs = append(needs, name)
		}
	}
	classes := []string{p.Hub.Home.Class, p.Hub.Database.Class, ""}
	if p.Hub.Scratch != nil {
		classes[2] = p.Hub.Scratch.Class
	}
	for _, class := range classes {
		add(s.Provider(cmp.Or(class, s.DefaultClass)))
	}
	if len(p.Hub.Shared) > 0 {
		add("nfs")
	}
	add("issuer")
	add("ingress")
	if p.HubSignsIn() {
		add(addon.LoginName)
	}
	if p.QueueOf(p.Hub.Namespace).Name != "" {
		add(addon.KueueName)
	}
	if p.Hub.Database.Name != "" {
		add(addon.PostgresName)
	}
	return needs
}

// hubFromCluster adds what the file does not say: the addresses that an identity provider publishes, what proves the hub
// to the login, and a CA that the cluster has made itself.
func hubFromCluster(p *spec.Platform, h jupyterhub.Hub, needs []string, proof func(context.Context, *kube.Client) (secret.Value, error)) func(context.Context, *kube.Client) (chart.Part, error) {
	asks := asksIssuer(h)
	ownCA := p.TLS != nil && p.TLS.Source == spec.TLSSelfSigned
	borrows := p.TLS != nil && p.TLS.Source == spec.TLSSecret && p.TLS.Secret != h.Namespace+"/"+hubTLS
	if !asks && !ownCA && !borrows && proof == nil {
		return nil
	}
	provider := &issuer{ca: h.AuthCA}
	if asks {
		provider.url = p.Hub.Auth.OIDC.Issuer
	}
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		h := h
		var lent []chart.Secret
		if proof != nil {
			its, err := proof(ctx, client)
			if err != nil {
				return chart.Part{}, err
			}
			h.Secrets.Client = its
		}
		if asks {
			endpoints, err := provider.endpoints(ctx)
			if err != nil {
				return chart.Part{}, err
			}
			h.Endpoints = mergeEndpoints(endpointsOfFile(p.Hub.Auth.OIDC), endpoints)
		}
		if ownCA {
			ca, err := addon.IssuerCA(ctx, client, p.TLS.Issuer)
			if err != nil {
				return chart.Part{}, fmt.Errorf("the certificate of the cluster's own CA: %w", err)
			}
			h.CA = ca
		}
		if borrows {
			s, err := addon.CopyCertificate(ctx, client, p.TLS.Secret, h.Namespace, hubTLS)
			if err != nil {
				return chart.Part{}, err
			}
			lent = append(lent, s)
		}
		part, err := h.Part()
		part.Needs, part.Secrets = needs, append(part.Secrets, lent...)
		return part, err
	}
}

// endpointsOfFile returns the addresses of an identity provider that are in the file.
func endpointsOfFile(o *spec.OIDCAuth) jupyterhub.Endpoints {
	return jupyterhub.Endpoints{Authorize: o.AuthorizeURL, Token: o.TokenURL, Userinfo: o.UserdataURL}
}

// mergeEndpoints returns a, with empty fields filled from b.
func mergeEndpoints(a, b jupyterhub.Endpoints) jupyterhub.Endpoints {
	if a.Authorize != "" {
		b.Authorize = a.Authorize
	}
	if a.Token != "" {
		b.Token = a.Token
	}
	if a.Userinfo != "" {
		b.Userinfo = a.Userinfo
	}
	return b
}

// Hub returns the hub that the file describes, without its secrets.
func Hub(s *spec.Spec) jupyterhub.Hub {
	h, _ := hubOf(s, siteOf(s, false)) // files that cannot be read are an error of Pieces
	return h
}

func hubOf(s *spec.Spec, site *addon.Site) (jupyterhub.Hub, error) {
	p := &s.Platform
	h := jupyterhub.Hub{
		Hub: *p.Hub, Ingress: hubIngress(p), Pools: hubPools(s), Queue: p.QueueOf(p.Hub.Namespace).Name, HomesStay: homesStay(s),
		SignsIn: p.HubSignsIn(), Taints: site.Taints(), ChartValues: p.Charts.Values["jupyterhub"],
	}
	for _, m := range p.Models {
		if h.Models.URLs == nil {
			h.Models = jupyterhub.Models{Namespace: modelserver.Namespace, URLs: map[string]string{}}
		}
		h.Models.URLs[m.Name] = addon.ModelURL(m.Name, s.K3s.ClusterDomain)
	}
	if p.ModelGateway != nil {
		h.Models.Gateway = addon.GatewayURL(s.K3s.ClusterDomain)
		for _, k := range p.ModelGateway.Keys {
			h.Models.Keys = append(h.Models.Keys, k.Name)
		}
	}
	h.Version = cmp.Or(h.Version, p.Charts.Versions["jupyterhub"])
	err := hubSecrets(&h, site)
	var caErr error
	h.CA, caErr = addon.Authority(p.TLS)
	err = errors.Join(err, caErr)
	if h.SignsIn {
		h.AuthCA, caErr = addon.File("login.provider.ca", p.Issuer().CA)
		err = errors.Join(err, caErr)
	}
	if h.Scratch != nil && h.Scratch.Class == "" {
		h.Scratch = nil
	}
	if own := p.Storage.Scratch; own != nil && h.Scratch != nil && own.Class == h.Scratch.Class {
		h.ScratchNodes = own.Nodes // nobody else has a volume of it
	}
	if nfs := p.Storage.NFS; nfs != nil {
		h.Exports = map[string]jupyterhub.NFSExport{}
		for _, of := range nfs.Shares {
			h.Exports[of.Name] = jupyterhub.NFSExport{Server: cmp.Or(of.Server, nfs.Server), Export: of.Export, MountOptions: of.MountOptions, ReadOnly: of.ReadOnly}
		}
	}
	return h, err
}

// hubIngress returns how browsers reach the hub.
func hubIngress(p *spec.Platform) jupyterhub.Ingress {
	in := jupyterhub.Ingress{Kind: jupyterhub.ByIngress, Class: p.Ingress.Class}
	switch p.Ingress.Kind {
	case spec.IngressGateway:
		in.Kind = jupyterhub.ByGateway
		in.GatewayNamespace, in.Gateway = addon.GatewayNamespace, addon.GatewayName(p.Ingress)
		in.TLS = p.TLS != nil
		return in
	case spec.IngressNone:
		in.Kind = jupyterhub.ByLoadBalancer
		if p.LB != nil {
			in.Address = p.LB.Reserved[p.Hub.Namespace+"/proxy-public"]
			in.Annotations = addon.AddressAnnotations(p.LB.Kind, in.Address)
		}
		return in
	}
	if p.TLS != nil {
		in.TLSSecret = hubTLS
		if p.TLS.Source != spec.TLSSecret {
			in.Annotations = map[string]string{"cert-manager.io/cluster-issuer": p.TLS.Issuer}
		}
	}
	return in
}

// hubSecrets fills in what hub.auth and hub.database refer to.
func hubSecrets(h *jupyterhub.Hub, s *addon.Site) error {
	var errs []error
	secretOf := func(at string, ref spec.SecretRef) secret.Value {
		value, err := s.Secret("hub."+at, ref)
		errs = append(errs, err)
		return value
	}
	ca := func(path string) (pem []byte) {
		pem, err := addon.File("hub.auth.ca", path)
		errs = append(errs, err)
		return pem
	}
	its := &h.Secrets
	switch a := h.Auth; {
	case a.Kind == spec.AuthDummy && a.Dummy != nil:
		its.Password = secretOf("auth.dummy.password", a.Dummy.Password)
	case a.Kind == spec.AuthGitHub && a.GitHub != nil:
		its.Client = secretOf("auth.github.clientSecret", a.GitHub.ClientSecret)
	case a.Kind == spec.AuthLDAP && a.LDAP != nil:
		h.AuthCA, its.Search = ca(a.LDAP.CA), secretOf("auth.ldap.searchPassword", a.LDAP.SearchPassword)
	case a.Kind == spec.AuthOIDC && a.OIDC != nil:
		h.AuthCA, its.Client = ca(a.OIDC.CA), secretOf("auth.oidc.clientSecret", a.OIDC.ClientSecret)
		// The issuer is asked for its addresses when they are needed.
		h.Endpoints = mergeEndpoints(endpointsOfFile(a.OIDC),
			jupyterhub.Endpoints{Authorize: a.OIDC.Issuer + "/authorize", Token: a.OIDC.Issuer + "/token", Userinfo: a.OIDC.Issuer + "/userinfo"})
	}
	if h.SignsIn { // its secret comes late
		its.Client = secret.New("to be read when it is needed")
	}
	its.Database = secretOf("database.url", h.Database.URL)
	if s.Unread && !its.Database.IsZero() { // in the required format
		its.Database = secret.New("postgresql://hub:hidden@db/hub")
	}
	return errors.Join(errs...)
}
