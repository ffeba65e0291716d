package addon

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// proxyImage is OAuth2 Proxy's. The digest is the index's, as several public files of autumn 2026 pin it.
const proxyImage = "quay.io/oauth2-proxy/oauth2-proxy:v7.15.5@sha256:8498b0d0ef0a7b29686414000a08aee467f02d0299c9ed1e006a8f33fc017916"

const (
	proxyPort      = 4180
	proxyCallback  = "/oauth2/callback"
	proxyClientKey = "client-secret"
	proxyCookieKey = "cookie-key"

	proxyCA, proxyCAPath = "login-ca", "/etc/login"
)

// oauth2Proxy is OAuth2 Proxy in front of a program. It lets only those in who have signed in and are in a group of
// the login, and asks its issuer again about them, so that who leaves is out.
type oauth2Proxy struct {
	*spec.Platform
	client, hostname, upstream string
	login, cookies             string        // Secrets with proxyClientKey, proxyCookieKey
	again                      time.Duration // how old an answer of the issuer may be
	args                       []string      // more of them
}

func (p oauth2Proxy) container(s *Site) corev1.Container {
	its := p.Issuer()
	args := []string{
		"--http-address=0.0.0.0:" + strconv.Itoa(proxyPort), "--upstream=" + p.upstream,
		"--provider=oidc", "--client-id=" + p.Login.Client(p.client).ClientID, "--scope=" + strings.Join(its.Scopes, " "), "--code-challenge-method=S256",
		"--redirect-url=" + s.scheme() + p.hostname + proxyCallback,
		"--oidc-issuer-url=" + its.URL,
	}
	if its.Token != "" { // browsers know it by its public name, and the pod by that of its Service
		args = append(args, "--skip-oidc-discovery=true", "--login-url="+its.Authorize, "--redeem-url="+its.Token, "--oidc-jwks-url="+its.Keys)
	}
	args = append(args,
		// A person is a name, as in the hub. Addresses are not looked at: some sources let people choose them.
		"--oidc-email-claim="+its.NameClaim, "--oidc-groups-claim="+its.GroupsClaim, "--email-domain=*",
		"--cookie-secure="+strconv.FormatBool(s.TLS != nil), "--cookie-samesite=lax", "--cookie-refresh="+p.again.String(), "--cookie-expire=720h",
		"--upstream-timeout=1h", "--skip-provider-button=true", "--pass-basic-auth=false", "--request-logging=false", "--standard-logging=true",
	)
	var mounts []corev1.VolumeMount
	if its.CA != "" {
		args = append(args, "--provider-ca-file="+proxyCAPath+"/"+loginCA, "--use-system-trust-store=true")
		mounts = []corev1.VolumeMount{{Name: proxyCA, MountPath: proxyCAPath, ReadOnly: true}}
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
		SecurityContext: noCapabilities(), VolumeMounts: mounts,
	}
}

// volumes are those that the container mounts.
func (p oauth2Proxy) volumes() []corev1.Volume {
	if p.Issuer().CA == "" {
		return nil
	}
	its := &corev1.SecretVolumeSource{SecretName: p.login, Items: []corev1.KeyToPath{{Key: loginCA, Path: loginCA}}}
	return []corev1.Volume{{Name: proxyCA, VolumeSource: corev1.VolumeSource{Secret: its}}}
}

// signsIn adds to a part what the proxy proves itself with, and the authority that it trusts.
func (p oauth2Proxy) signsIn(s *Site, part chart.Part, first late, namespace string) (late, error) {
	ca, err := issuerAuthority(p.Platform)
	if err != nil {
		return nil, err
	}
	return s.withLogin(part, first, p.Login, p.client, chart.Secret{Namespace: namespace, Name: p.login}, proxyClientKey, func(context.Context) (map[string]secret.Value, error) {
		if len(ca) == 0 {
			return nil, nil
		}
		return map[string]secret.Value{loginCA: secret.New(string(ca))}, nil
	})
}

// commaSeparated is a list of one value, as flags of lists and rows of CSV take it.
func commaSeparated(value string) string {
	if !strings.ContainsAny(value, "\",\n") {
		return value
	}
	return `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
}
