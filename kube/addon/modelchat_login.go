package addon

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
)

// Images of what is in front of Open WebUI. The digests are the indexes', as several public files of autumn 2026
// pin them.
const (
	proxyImage = "quay.io/oauth2-proxy/oauth2-proxy:v7.15.5@sha256:8498b0d0ef0a7b29686414000a08aee467f02d0299c9ed1e006a8f33fc017916"
	nginxImage = "docker.io/nginxinc/nginx-unprivileged:1.30.5-alpine@sha256:4714e0b1b2577eaa1a6131d07c958b67f0eb68e6d0521e90c6e5287db8cf0bc5"
)

const (
	chatPort, rolesPort, webuiPort = 4180, 8081, 8080 // the first asks who somebody is, and is the only one outside of the pod

	chatCallback = "/oauth2/callback"
	chatHealth   = "/health" // of Open WebUI
	// Whom the proxies say that somebody is.
	nameHeader, roleHeader = "X-Chat-Name", "X-Chat-Role"

	chatLogin     = chatName + "-login" // a Secret with what the chat proves itself with to Dex
	chatClientKey = "client-secret"
	chatCookieKey = "cookie-key"

	rolesVolume, rolesPath, rolesFile = "roles", "/etc/chat", "nginx.conf"
)

// proxy is OAuth2 Proxy, which lets only those in who have signed in and are in a group that may use the chat. It
// asks Dex again when a token is over, so that who leaves is out.
func (c ModelChat) proxy(s *Site) corev1.Container {
	issuer, local := c.Platform.Issuer(), func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	args := []string{
		"--http-address=0.0.0.0:" + strconv.Itoa(chatPort), "--upstream=http://" + local(rolesPort),
		"--provider=oidc", "--client-id=" + ClientChat, "--scope=" + strings.Join(spec.LoginScopes(), " "), "--code-challenge-method=S256",
		"--redirect-url=" + s.scheme() + c.Hostname + chatCallback,
		// Browsers know Dex by its public name, and the pod by that of its Service.
		"--oidc-issuer-url=" + issuer, "--skip-oidc-discovery=true", "--login-url=" + issuer + "/auth",
		"--redeem-url=" + spec.LoginService + "/token", "--oidc-jwks-url=" + spec.LoginService + "/keys",
		// A person is a name, as in the hub. Addresses are not looked at: some sources let people choose them.
		"--oidc-email-claim=preferred_username", "--oidc-groups-claim=groups", "--email-domain=*",
		"--cookie-secure=" + strconv.FormatBool(s.TLS != nil), "--cookie-samesite=lax", "--cookie-refresh=" + spec.LoginToken.String(), "--cookie-expire=720h",
		"--upstream-timeout=1h", "--skip-provider-button=true", "--skip-auth-route=GET=^" + chatHealth + "$", "--pass-basic-auth=false",
		"--request-logging=false", "--standard-logging=true",
	}
	for _, group := range slices.Concat(c.Platform.Login.AllowedGroups, c.Platform.Login.AdminGroups) {
		args = append(args, "--allowed-group="+commaSeparated(group))
	}
	return corev1.Container{
		Name: "oauth2-proxy", Image: proxyImage, Args: args,
		Env: []corev1.EnvVar{
			secretVariable("OAUTH2_PROXY_CLIENT_SECRET", chatLogin, chatClientKey),
			secretVariable("OAUTH2_PROXY_COOKIE_SECRET", chatName, chatCookieKey),
		},
		Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: chatPort, Protocol: corev1.ProtocolTCP}},
		Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}},
		SecurityContext: noCapabilities(),
	}
}

// commaSeparated is a list of one value, as flags of lists take it.
func commaSeparated(value string) string {
	if !strings.ContainsAny(value, "\",\n") {
		return value
	}
	return `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
}

// roleProxy is nginx, which makes a role of groups: neither of the others can.
func (c ModelChat) roleProxy() corev1.Container {
	yes, user := true, int64(101)
	its := noCapabilities()
	its.RunAsNonRoot, its.RunAsUser, its.ReadOnlyRootFilesystem = &yes, &user, &yes
	return corev1.Container{
		Name: "nginx", Image: nginxImage, Command: []string{"nginx", "-c", rolesPath + "/" + rolesFile},
		Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}},
		SecurityContext: its,
		VolumeMounts:    []corev1.VolumeMount{{Name: rolesVolume, MountPath: rolesPath, ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}},
	}
}

// roles is nginx' configuration. OAuth2 Proxy replaces the headers of its own that a browser sends, and nginx those
// that Open WebUI believes.
func (c ModelChat) roles() *corev1.ConfigMap {
	var admins strings.Builder
	for _, group := range c.Platform.Login.AdminGroups {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(regexp.QuoteMeta(group))
		fmt.Fprintf(&admins, "    \"~(^|,) *%s *(,|$)\" admin;\n", quoted)
	}
	text := fmt.Sprintf(rolesText, admins.String(), rolesPort, webuiPort, nameHeader, roleHeader)
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(chatName, modelserver.Namespace, chatName), Data: map[string]string{rolesFile: text}}
}

const rolesText = `daemon off;
pid /tmp/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  client_max_body_size 0;
  large_client_header_buffers 8 64k; # cookies with tokens and groups
  map $http_x_forwarded_groups $role {
    default user;
%s  }
  map $http_upgrade $keep { default upgrade; "" close; }
  server {
    listen 127.0.0.1:%d;
    location / {
      proxy_pass http://127.0.0.1:%d;
      proxy_http_version 1.1;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 1h;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $keep;
      proxy_set_header %s $http_x_forwarded_preferred_username;
      proxy_set_header %s $role;
    }
  }
}
`
