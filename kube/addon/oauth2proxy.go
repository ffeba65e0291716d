package addon

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// proxyImage is OAuth2 Proxy's. The digest is the index's, as several public files of autumn 2026 pin it.
const proxyImage = "quay.io/oauth2-proxy/oauth2-proxy:v7.15.5@sha256:8498b0d0ef0a7b29686414000a08aee467f02d0299c9ed1e006a8f33fc017916"

const (
	proxyPort      = 4180
	proxyCallback  = "/oauth2/callback"
	proxyClientKey = "client-secret"
	proxyCookieKey = "cookie-key"
)

// oauth2Proxy is OAuth2 Proxy in front of a program. It lets only those in who have signed in and are in a group of
// the login, and asks Dex again about them, so that who leaves is out.
type oauth2Proxy struct {
	*spec.Platform
	client, hostname, upstream string
	login, cookies             string        // Secrets with proxyClientKey, proxyCookieKey
	again                      time.Duration // how old an answer of Dex may be
	args                       []string      // more of them
}

func (p oauth2Proxy) container(s *Site) corev1.Container {
	issuer := p.Issuer()
	args := []string{
		"--http-address=0.0.0.0:" + strconv.Itoa(proxyPort), "--upstream=" + p.upstream,
		"--provider=oidc", "--client-id=" + p.client, "--scope=" + strings.Join(spec.LoginScopes(), " "), "--code-challenge-method=S256",
		"--redirect-url=" + s.scheme() + p.hostname + proxyCallback,
		// Browsers know Dex by its public name, and the pod by that of its Service.
		"--oidc-issuer-url=" + issuer, "--skip-oidc-discovery=true", "--login-url=" + issuer + "/auth",
		"--redeem-url=" + spec.LoginService + "/token", "--oidc-jwks-url=" + spec.LoginService + "/keys",
		// A person is a name, as in the hub. Addresses are not looked at: some sources let people choose them.
		"--oidc-email-claim=preferred_username", "--oidc-groups-claim=groups", "--email-domain=*",
		"--cookie-secure=" + strconv.FormatBool(s.TLS != nil), "--cookie-samesite=lax", "--cookie-refresh=" + p.again.String(), "--cookie-expire=720h",
		"--upstream-timeout=1h", "--skip-provider-button=true", "--pass-basic-auth=false", "--request-logging=false", "--standard-logging=true",
	}
	args = append(args, p.args...)
	for _, group := range slices.Concat(p.Login.AllowedGroups, p.Login.AdminGroups) {
		args = append(args, "--allowed-group="+commaSeparated(group))
	}
	return corev1.Container{
		Name: "oauth2-proxy", Image: proxyImage, Args: args,
		Env: []corev1.EnvVar{
			secretVariable("OAUTH2_PROXY_CLIENT_SECRET", p.login, proxyClientKey),
			secretVariable("OAUTH2_PROXY_COOKIE_SECRET", p.cookies, proxyCookieKey),
		},
		Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: proxyPort, Protocol: corev1.ProtocolTCP}},
		Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}},
		SecurityContext: noCapabilities(),
	}
}

// commaSeparated is a list of one value, as flags of lists and rows of CSV take it.
func commaSeparated(value string) string {
	if !strings.ContainsAny(value, "\",\n") {
		return value
	}
	return `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
}
