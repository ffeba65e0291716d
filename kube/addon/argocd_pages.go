package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const (
	argoNamespace = "argocd"
	argoServer    = "argocd-server" // the Service of its pages, of the chart
	argoPages     = "argocd-pages"
	argoTLS       = argoPages + "-tls"
	argoLogin     = "argocd-login"
	argoAuthority = "argocd-authority" // a Secret that Argo CD reads
)

// ArgoCDPages leads people to Argo CD's pages by a name, and with a login through a proxy by which they sign in.
//
// Argo CD could send people to the issuer itself. Its session is then a token of that, which it renews when a page asks for
// something, and who rests for as long as the token lives has to sign in again (getClaims in server/server.go at
// v3.4.4). The proxy stays signed in, asks the issuer again, and hands Argo CD a token that is new, which it takes from the
// header Authorization.
type ArgoCDPages struct{ *spec.Platform }

func (a ArgoCDPages) Info() Info {
	return Info{Name: argoPages, Section: "argocd", On: a.ArgoCDHasPages(), NeverInFleet: "it leads to Argo CD itself"}
}

func (a ArgoCDPages) Make(s *Site) (Recipe, error) {
	host := a.ArgoCD.Hostname
	p := Recipe{Web: &Web{Title: "Argo CD", URL: s.scheme() + host, Login: a.Issuer().Origin()}, Part: chart.Part{Name: argoPages}}
	s.requireParts(&p, "argocd", "issuer", "ingress", LoginName)
	if a.Login == nil {
		p.After = s.page(meta(argoPages, argoNamespace, argoServer), host, 80, argoTLS)
		p.Late = s.copiedCertificate(p.Part, argoNamespace, argoTLS)
		return p, nil
	}
	ca, err := LoginAuthority(a.Platform)
	if err != nil {
		return Recipe{}, err
	}
	if len(ca) > 0 {
		p.Secrets = append(p.Secrets, argoTrusts(ca))
	}
	p.Secrets = append(p.Secrets, chart.Secret{Namespace: argoNamespace, Name: argoPages, Generate: map[string]int{proxyCookieKey: 16}})
	p.After = append([]runtime.Object{a.deployment(s), a.service()}, s.page(a.meta(), host, proxyPort, argoTLS)...)
	signed, err := a.proxy().signsIn(s, p.Part, s.copiedCertificate(p.Part, argoNamespace, argoTLS), argoNamespace)
	p.Late = func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		out, err := signed(ctx, client)
		if err != nil || !a.madeHere() {
			return out, err
		}
		ca, err := IssuerCA(ctx, client, s.TLS.Issuer)
		if err != nil {
			return out, fmt.Errorf("the authority of Dex's certificate: %w", err)
		}
		out.Secrets = append(slices.Clone(out.Secrets), argoTrusts(ca))
		return out, nil
	}
	return p, err
}

// madeHere reports whether the authority of the issuer's certificate is made in the cluster.
func (a ArgoCDPages) madeHere() bool {
	return a.Login.Provider == nil && a.TLS != nil && a.TLS.Source == spec.TLSSelfSigned
}

// argoTrusts is the authority of the issuer's certificate. Argo CD reads values that begin with $ from Secrets with this
// label (util/settings/settings.go), and restarts when they change.
func argoTrusts(ca []byte) chart.Secret {
	return chart.Secret{Namespace: argoNamespace, Name: argoAuthority, Labels: map[string]string{"app.kubernetes.io/part-of": "argocd"},
		Data: map[string]secret.Value{"ca.crt": secret.New(string(ca))}}
}

func (a ArgoCDPages) meta() metav1.ObjectMeta { return meta(argoPages, argoNamespace, argoPages) }

func (a ArgoCDPages) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: a.meta(),
		Spec: corev1.ServiceSpec{Selector: ownLabels(argoPages), Ports: []corev1.ServicePort{{
			Name: "http", Protocol: corev1.ProtocolTCP, Port: proxyPort, TargetPort: intstr.FromString("http")}}},
	}
}

func (a ArgoCDPages) deployment(s *Site) *appsv1.Deployment {
	one, no := int32(1), false
	c := a.proxy().container(s)
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ping", Port: intstr.FromString("http")}}}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: a.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: ownLabels(argoPages)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: ownLabels(argoPages)}, Spec: corev1.PodSpec{
				Tolerations: Tolerations(s.Taints()), AutomountServiceAccountToken: &no, EnableServiceLinks: &no, Containers: []corev1.Container{c}, Volumes: a.proxy().volumes()}},
		},
	}
}

func (a ArgoCDPages) proxy() oauth2Proxy {
	return oauth2Proxy{
		Platform: a.Platform, client: spec.LoginArgoCD, hostname: a.ArgoCD.Hostname, upstream: "http://" + argoServer + "." + argoNamespace,
		// The token that Argo CD gets has to last for as long as its answer takes.
		login: argoLogin, cookies: argoPages, again: spec.LoginToken - spec.LoginCheck, args: []string{"--pass-authorization-header=true"},
	}
}

// signsIn adds what Argo CD needs to know of its own pages, and of who signs in to them.
func (a ArgoCDPages) signsIn(s *Site, config values) error {
	if !a.ArgoCDHasPages() {
		return nil
	}
	cm := config["cm"].(values)
	cm["url"] = s.scheme() + a.ArgoCD.Hostname
	config["params"].(values)["server.insecure"] = "true" // what is in front of it has the certificate
	if a.Login == nil {
		return nil
	}
	its := a.Issuer()
	oidc := values{"name": "the cluster's login", "issuer": its.URL, "clientID": a.Login.Client(spec.LoginArgoCD).ClientID}
	if its.CA != "" || a.madeHere() || a.Login.Provider == nil && s.TLS != nil && s.TLS.CACert != "" {
		oidc["rootCA"] = "$" + argoAuthority + ":ca.crt"
	}
	text, err := yaml.Marshal(oidc)
	if err != nil {
		return fmt.Errorf("argocd: %w", err)
	}
	cm["oidc.config"] = string(text)
	var policy strings.Builder
	for _, of := range []struct {
		groups []string
		role   string
	}{{a.Login.AdminGroups, "admin"}, {a.Login.AllowedGroups, "readonly"}} {
		for _, group := range of.groups {
			fmt.Fprintf(&policy, "g, %s, role:%s\n", commaSeparated(group), of.role)
		}
	}
	rbac := values{"policy.csv": policy.String()}
	if its.GroupsClaim != "groups" { // its default
		rbac["scopes"] = "[" + its.GroupsClaim + "]"
	}
	config["rbac"] = rbac
	return nil
}
