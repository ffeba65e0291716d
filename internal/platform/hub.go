package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/secret"
)

// hubTLS is the Secret with the hub's certificate.
const hubTLS = "hub-tls"

// hub is JupyterHub.
type hub struct{ spec *spec.Spec }

func (h hub) Info() addon.Info {
	i := addon.Info{Name: "jupyterhub", Section: "hub", On: h.spec.Platform.Hub != nil, Namespace: "jupyterhub", Chart: jupyterhub.Pin()}
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
	out := addon.Recipe{Part: part, Late: hubFromCluster(p, its, part.Needs), Assumes: assumedOfHub(p, its),
		Web: &addon.Web{Title: "notebooks", URL: its.URL()}}
	for _, n := range its.GeneratedSecrets() {
		out.Passwords = append(out.Passwords, addon.Password(n))
	}
	return out, nil
}

// asksIssuer reports whether the provider's addresses come from what it publishes.
func asksIssuer(p *spec.Platform, h jupyterhub.Hub) bool {
	return h.Auth.Kind == jupyterhub.OIDC && p.Hub.Auth.OIDC != nil && h.Auth.Endpoints != endpointsOfFile(p.Hub.Auth.OIDC)
}

// assumedOfHub are assumptions about the hub that do not follow from the file.
func assumedOfHub(p *spec.Platform, h jupyterhub.Hub) []string {
	var out []string
	if asksIssuer(p, h) {
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
	if hubQueue(p) != "" {
		add(addon.KueueName)
	}
	return needs
}

// hubQueue is the queue in which notebooks wait; "": in none.
func hubQueue(p *spec.Platform) string {
	for _, q := range p.Queues {
		if slices.Contains(q.Namespaces, p.Hub.Namespace) {
			return q.Name
		}
	}
	return ""
}

// hubFromCluster adds what the file does not say: the addresses that an identity provider publishes, and a
// CA that the cluster has made itself.
func hubFromCluster(p *spec.Platform, h jupyterhub.Hub, needs []string) func(context.Context, *kube.Client) (chart.Part, error) {
	asks := asksIssuer(p, h)
	ownCA := p.TLS != nil && p.TLS.Source == spec.TLSSelfSigned
	borrows := p.TLS != nil && p.TLS.Source == spec.TLSSecret && p.TLS.Secret != h.Namespace+"/"+hubTLS
	if !asks && !ownCA && !borrows {
		return nil
	}
	provider := &issuer{ca: h.Auth.CA}
	if asks {
		provider.url = p.Hub.Auth.OIDC.Issuer
	}
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		h := h
		var lent []chart.Secret
		if asks {
			endpoints, err := provider.endpoints(ctx)
			if err != nil {
				return chart.Part{}, err
			}
			h.Auth.Endpoints = merged(endpointsOfFile(p.Hub.Auth.OIDC), endpoints)
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

// merged returns a, with empty fields filled from b.
func merged(a, b jupyterhub.Endpoints) jupyterhub.Endpoints {
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
	in := p.Hub
	auth, err := hubAuth(p, site)
	database, dbErr := site.Secret("hub.database.url", in.Database.URL)
	if site.Unread && !database.IsZero() { // in the required format
		database = secret.New("postgresql://hub:hidden@db/hub")
	}
	h := jupyterhub.Hub{
		Namespace: in.Namespace, Version: in.Version, Hostname: in.Hostname, Ingress: hubIngress(p),
		Auth: auth, Pools: hubPools(s),
		Database: jupyterhub.Database{Kind: in.Database.Kind, Class: in.Database.Class, Size: toBytes(in.Database.Size), URL: database},
		Home: jupyterhub.Home{Class: in.Home.Class, Size: toBytes(in.Home.Size), Claim: in.Home.Claim, Path: in.Home.Path,
			ClaimTemplate: in.Home.ClaimTemplate, SubPath: in.Home.SubPath, Stays: homesStay(s)},
		SHM: toBytes(in.SHM), PrePull: in.PrePull, Exposed: !in.Isolate.IsOn(), Reach: in.Reach, Taints: site.Taints(),
		Cull:        jupyterhub.Cull{Off: !in.Cull.Enabled.IsOn(), Idle: in.Cull.Idle, MaxAge: in.Cull.MaxAge, Every: in.Cull.Every, Exempt: in.Cull.Exempt},
		Quota:       jupyterhub.Quota{GPUs: in.Quota.GPUs, CPU: float64(in.Quota.CPU), Memory: toBytes(in.Quota.Memory)},
		Queue:       hubQueue(p),
		ChartValues: p.Charts.Values["jupyterhub"],
	}
	if v := p.Charts.Versions["jupyterhub"]; v != "" && h.Version == "" {
		h.Version = v
	}
	if p.TLS != nil && (p.TLS.Source == spec.TLSCA || p.TLS.Source == spec.TLSSecret) {
		var caErr error
		h.CA, caErr = addon.File("tls.ca.cert", p.TLS.CACert)
		err = errors.Join(err, caErr)
	}
	if in.Scratch != nil && in.Scratch.Class != "" {
		h.Scratch = &jupyterhub.Scratch{Class: in.Scratch.Class, Size: toBytes(in.Scratch.Size), Path: in.Scratch.Path}
		if own := p.Storage.Scratch; own != nil && own.Class == in.Scratch.Class {
			h.Scratch.Nodes = own.Nodes // nobody else has a volume of it
		}
	}
	for _, x := range in.Profiles {
		h.Profiles = append(h.Profiles, jupyterhub.Profile{
			Name: x.Name, Title: x.Title, Description: x.Description, Image: x.Image, Default: x.Default,
			CPUGuarantee: float64(x.CPU.Guarantee), CPULimit: float64(x.CPU.Limit), MemGuarantee: toBytes(x.Memory.Guarantee), MemLimit: toBytes(x.Memory.Limit),
			GPUs: x.GPUs, GPUMemory: toBytes(x.GPUMemory), Resources: instance(x), RuntimeClass: x.RuntimeClass, Pool: x.Pool, Groups: x.Groups, Env: x.Env,
			DefaultURL: x.DefaultURL, SHM: toBytes(x.SHM),
		})
	}
	for _, x := range in.Shared {
		share := jupyterhub.Share{Name: x.Name, Path: x.Path, ReadOnly: x.ReadOnly.IsOn(), Groups: x.Groups}
		if nfs := p.Storage.NFS; nfs != nil {
			if i := slices.IndexFunc(nfs.Shares, func(s spec.Share) bool { return s.Name == x.Name }); i >= 0 {
				of := nfs.Shares[i]
				share.ReadOnly = share.ReadOnly || of.ReadOnly
				share.NFS = jupyterhub.NFSExport{Server: nfs.Server, Export: of.Export, MountOptions: of.MountOptions}
			}
		}
		h.Shared = append(h.Shared, share)
	}
	return h, errors.Join(err, dbErr)
}

func toBytes(s spec.Size) jupyterhub.Bytes { return jupyterhub.Bytes(s) }

// hubIngress returns how browsers reach the hub.
func hubIngress(p *spec.Platform) jupyterhub.Ingress {
	in := jupyterhub.Ingress{Kind: jupyterhub.ByIngress, Class: p.Ingress.Class}
	switch p.Ingress.Kind {
	case spec.IngressGateway:
		in.Kind = jupyterhub.ByGateway
		in.GatewayNamespace, in.Gateway = addon.GatewayNamespace, addon.GatewayName
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

// hubAuth returns who may log in.
func hubAuth(p *spec.Platform, s *addon.Site) (jupyterhub.Auth, error) {
	a := p.Hub.Auth
	out := jupyterhub.Auth{Kind: a.Kind, AllowAll: a.AllowAll.IsOn(), Users: a.Users, Admins: a.Admins}
	var errs []error
	secretOf := func(at string, ref spec.SecretRef) secret.Value {
		value, err := s.Secret("hub.auth."+at, ref)
		errs = append(errs, err)
		return value
	}
	ca := func(path string) (pem []byte) {
		pem, err := addon.File("hub.auth.ca", path)
		errs = append(errs, err)
		return pem
	}
	switch {
	case a.Kind == spec.AuthDummy && a.Dummy != nil:
		out.Password = secretOf("dummy.password", a.Dummy.Password)
	case a.Kind == spec.AuthNative && a.Native != nil:
		out.OpenSignup = a.Native.OpenSignup
	case a.Kind == spec.AuthGitHub && a.GitHub != nil:
		out.ClientID, out.ClientSecret, out.Organizations = a.GitHub.ClientID, secretOf("github.clientSecret", a.GitHub.ClientSecret), a.GitHub.Organizations
	case a.Kind == spec.AuthLDAP && a.LDAP != nil:
		l := a.LDAP
		out.CA = ca(l.CA)
		out.Directory = jupyterhub.Directory{
			Server: l.Server, BindDN: l.BindDN, SearchBase: l.SearchBase, Groups: l.Groups, LookupDN: l.LookupDN,
			SearchUser: l.SearchUser, SearchPass: secretOf("ldap.searchPassword", l.SearchPassword), UserAttr: l.UserAttribute,
		}
	case a.Kind == spec.AuthOIDC && a.OIDC != nil:
		o := a.OIDC
		out.ClientID, out.ClientSecret, out.CA = o.ClientID, secretOf("oidc.clientSecret", o.ClientSecret), ca(o.CA)
		out.UsernameClaim, out.GroupsClaim, out.AllowedGroups, out.AdminGroups = o.UsernameClaim, o.GroupsClaim, o.AllowedGroups, o.AdminGroups
		out.Scopes, out.LoginService = o.Scopes, o.Button
		// The issuer is asked for its addresses when they are needed.
		out.Endpoints = merged(endpointsOfFile(o),
			jupyterhub.Endpoints{Authorize: o.Issuer + "/authorize", Token: o.Issuer + "/token", Userinfo: o.Issuer + "/userinfo"})
	}
	return out, errors.Join(errs...)
}

// instance is what a profile requests for an instance of a GPU; nil: none.
func instance(p spec.HubProfile) map[string]string {
	if p.MIG == "" {
		return nil
	}
	return map[string]string{nvidia.MIGResource(p.MIG): "1"}
}
