package addon

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
)

// nginxImage is in front of Open WebUI. The digest is the index's, as several public files of autumn 2026 pin it.
const nginxImage = "docker.io/nginxinc/nginx-unprivileged:1.30.5-alpine@sha256:4714e0b1b2577eaa1a6131d07c958b67f0eb68e6d0521e90c6e5287db8cf0bc5"

const (
	rolesPort, webuiPort = 8081, 8080

	chatHealth = "/health" // of Open WebUI
	// Whom the proxies say that somebody is.
	nameHeader, roleHeader = "X-Chat-Name", "X-Chat-Role"

	chatLogin = chatName + "-login" // a Secret with what the chat proves itself with to the login

	rolesVolume, rolesPath, rolesFile = "roles", "/etc/chat", "nginx.conf"
)

// proxy asks who somebody is, and is the only program that others reach.
func (c ModelChat) proxy() oauth2Proxy {
	return oauth2Proxy{
		Platform: c.Platform, client: spec.LoginChat, hostname: c.Hostname, upstream: fmt.Sprintf("http://127.0.0.1:%d", rolesPort),
		login: chatLogin, cookies: chatName, again: spec.LoginToken, args: []string{"--skip-auth-route=GET=^" + chatHealth + "$"},
	}
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
      proxy_set_header %s $http_x_forwarded_email;
      proxy_set_header %s $role;
    }
  }
}
`
