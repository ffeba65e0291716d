package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

// tunnelImage is cloudflared's. The digest is the index's, as several public files of autumn 2026 pin it.
const tunnelImage = "docker.io/cloudflare/cloudflared:2026.10.0@sha256:9b49eed8f62806d5d45ddf59ecefb5710429598ea6d3fcccd2af938f621b2b07"

const (
	tunnelName = "tunnel"      // the part
	tunnelApp  = "cloudflared" // its namespace and objects

	tunnelConfig, tunnelConfigPath = "config.yaml", "/etc/cloudflared"
	tunnelToken, tunnelSecretPath  = "token", "/run/secrets/cloudflared"
	tunnelCA                       = "ca.crt"
	tunnelMetrics                  = 2000
)

// Tunnel provides cloudflared, which keeps connections to Cloudflare open and leads requests for the file's names, that
// come in by them, to the cluster's ingress. What a tunnel of Cloudflare's dashboard says there wins over the file
// (cloudflared 2026.8.2, orchestration/orchestrator.go, UpdateConfig).
type Tunnel struct{ *spec.Tunnel }

func (t Tunnel) Info() Info {
	return Info{Name: tunnelName, Section: "tunnel", On: t.Tunnel != nil, Namespace: tunnelApp}
}

func (t Tunnel) Make(s *Site) (Recipe, error) {
	config, err := t.config(s)
	if err != nil {
		return Recipe{}, err
	}
	token, err := s.Secret("tunnel.cloudflare", t.Cloudflare)
	if err != nil {
		return Recipe{}, err
	}
	ca, err := Authority(s.TLS)
	if err != nil {
		return Recipe{}, err
	}
	its := chart.Secret{Namespace: tunnelApp, Name: tunnelApp, Data: map[string]secret.Value{tunnelToken: token, tunnelCA: secret.New(string(ca))}}
	d := t.deployment(s, config.Data[tunnelConfig])
	p := Recipe{
		Part:   chart.Part{Name: tunnelName, Secrets: []chart.Secret{its}, Before: []runtime.Object{namespaceObject(tunnelApp, nil), config, d}},
		Verify: []verify.Check{{Name: "it is connected", Try: tunnelConnected}},
	}
	s.requireParts(&p, "issuer", "ingress")
	if s.TLS.Source == spec.TLSSelfSigned {
		p.Late = withClusterCA(p.Part, s.TLS.Issuer)
	}
	return p, nil
}

// withClusterCA adds the authority that the cluster has made itself.
func withClusterCA(part chart.Part, issuer string) late {
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		ca, err := IssuerCA(ctx, client, issuer)
		if err != nil {
			return part, fmt.Errorf("the authority of the ingress' certificates: %w", err)
		}
		its := part.Secrets[0]
		its.Data = maps.Clone(its.Data)
		its.Data[tunnelCA] = secret.New(string(ca))
		part.Secrets = []chart.Secret{its}
		return part, nil
	}
}

// config leads the names to the ingress, whose certificate is checked for the name of each request, and everything else
// to nothing (cloudflared: ingress/ingress.go, config/configuration.go).
func (t Tunnel) config(s *Site) (*corev1.ConfigMap, error) {
	if s.TLS == nil {
		return nil, errors.New("tunnel: Cloudflare serves the names by HTTPS, and programs behind it would lead people to HTTP: write tls: self-signed, or a better source")
	}
	if s.Ingress.Kind == spec.IngressNone {
		return nil, errors.New("tunnel: it leads to the ingress, and there is none: write ingress: traefik or gateway, or remove tunnel")
	}
	namespace, service, err := s.service("ingress")
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("https://%s.%s:443", service, namespace)
	var rules []any
	for _, name := range t.Names {
		if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Errorf("tunnel.names: %q is not a name: write e.g. hub.example.org or \"*.example.org\", without https:// and path", name)
		}
		rules = append(rules, values{"hostname": name, "service": at})
	}
	text, err := yaml.Marshal(values{
		"ingress":       append(rules, values{"service": "http_status:404"}),
		"originRequest": values{"matchSNItoHost": true, "caPool": tunnelSecretPath + "/" + tunnelCA},
	})
	if err != nil {
		return nil, fmt.Errorf("tunnel: %w", err)
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(tunnelName, tunnelApp, tunnelApp),
		Data: map[string]string{tunnelConfig: string(text)}}, nil
}

func (t Tunnel) deployment(s *Site, config string) *appsv1.Deployment {
	replicas, no, yes := int32(s.replicas(2)), false, true
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta(tunnelName, tunnelApp, tunnelApp),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: ownLabels(tunnelName)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ownLabels(tunnelName), Annotations: digestOf(config)},
				Spec: corev1.PodSpec{
					Tolerations: Tolerations(s.Taints()), AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
						WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: ownLabels(tunnelName)}}},
					Containers: []corev1.Container{t.container()},
					Volumes: []corev1.Volume{
						{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: tunnelApp}}}},
						{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: tunnelApp}}},
					},
				},
			},
		},
	}
}

// container is ready while at least one connection to Cloudflare stands (cloudflared: metrics/readiness.go).
func (Tunnel) container() corev1.Container {
	return corev1.Container{
		Name: tunnelApp, Image: tunnelImage,
		Args: []string{"tunnel", "--config", tunnelConfigPath + "/" + tunnelConfig, "--metrics", "0.0.0.0:" + strconv.Itoa(tunnelMetrics),
			"run", "--token-file", tunnelSecretPath + "/" + tunnelToken},
		Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: tunnelMetrics, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("metrics"), Scheme: corev1.URISchemeHTTP}}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
		SecurityContext: noCapabilities(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: tunnelConfigPath, ReadOnly: true}, {Name: "secret", MountPath: tunnelSecretPath, ReadOnly: true}},
	}
}

// tunnelConnected counts the pods that are connected to Cloudflare.
func tunnelConnected(ctx context.Context, c verify.Cluster) (string, error) {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: tunnelApp, Name: tunnelApp}}
	if err := c.Kube.Get(ctx, d); err != nil {
		return "", err
	}
	if d.Status.ReadyReplicas == 0 {
		return "", errors.New("no pod is connected to Cloudflare: kubectl -n " + tunnelApp + " logs deployment/" + tunnelApp + " says why; they need port 7844 to the internet")
	}
	return fmt.Sprintf("by %d of %d pods", d.Status.ReadyReplicas, d.Status.Replicas), nil
}
