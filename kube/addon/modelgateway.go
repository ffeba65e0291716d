package addon

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// gatewayImage is LiteLLM's, of a user without rights. The digest is the index's, as two scans of 2026-10-08 name it.
const gatewayImage = "docker.io/litellm/litellm-non_root:v1.104.2@sha256:e8dee87e7ddbf9abc174e8a7b180a690d5265cc4827458d22c5ff5e108170027"

const (
	// ModelGatewayName is the part's name.
	ModelGatewayName = "model-gateway"
	gatewayUser      = 65534 // nobody, who owns what the image writes (docker/Dockerfile.non_root)
	gatewayConfig    = "/etc/litellm"
	gatewayTLS       = modelserver.GatewayService + "-tls"
)

// ModelGateway provides LiteLLM in front of the models, and its database. The keys of the file are made by its
// API when it runs.
type ModelGateway struct {
	*spec.ModelGateway
	Models []spec.Model
	Chat   bool // the chat has a key of its own
}

// GatewayURL is the address of all models for programs in the cluster.
func GatewayURL(domain string) string {
	return fmt.Sprintf("http://%s.%s.svc.%s:%d/v1", modelserver.GatewayService, modelserver.Namespace, cmp.Or(domain, "cluster.local"), modelserver.GatewayPort)
}

func (g ModelGateway) Info() Info {
	return Info{
		Name: ModelGatewayName, Section: "modelGateway", On: g.ModelGateway != nil, Namespace: modelserver.Namespace,
		NeverInFleet: "it would delete its database without asking",
	}
}

func (g ModelGateway) Make(s *Site) (Recipe, error) {
	config, err := g.config()
	if err != nil {
		return Recipe{}, err
	}
	p := Recipe{
		Settle: 15 * time.Minute, // it downloads images, and brings its database up to date
		Part: chart.Part{
			Name: ModelGatewayName, Secrets: g.secrets(),
			Before: []runtime.Object{config, g.deployment(s, config.Data[gatewayConfigKey]), g.service()},
			After:  []runtime.Object{g.database().object(s)},
		},
		Passwords: []Password{{"user admin of the models' page, /ui", modelserver.Namespace, modelserver.GatewayService, modelserver.MasterKey}},
	}
	for _, k := range g.Keys {
		p.Passwords = append(p.Passwords, Password{"key " + k.Name + " for models", modelserver.Namespace, modelserver.KeysSecret, k.Name})
	}
	// The hub has the Secret with its notebooks' key.
	s.requireParts(&p, "models", PostgresName, s.Provider(cmp.Or(g.StorageClass, s.DefaultClass)), "jupyterhub")
	g.publish(&p, s)
	return p, nil
}

func (g ModelGateway) meta(name string) metav1.ObjectMeta {
	return meta(modelserver.GatewayService, modelserver.Namespace, name)
}

func (g ModelGateway) database() database {
	return database{Database: spec.Database{Name: modelserver.GatewayDatabase, Namespace: modelserver.Namespace, Instances: 1, Size: g.Size, StorageClass: g.StorageClass}}
}

// secrets are the key of its administrator, the one that it encrypts its database with, and those of people.
func (g ModelGateway) secrets() []chart.Secret {
	out := []chart.Secret{{Namespace: modelserver.Namespace, Name: modelserver.GatewayService, Prefix: modelserver.KeyPrefix,
		Generate: map[string]int{modelserver.MasterKey: 16, saltKey: 16}}}
	if g.Chat {
		out = append(out, chart.Secret{Namespace: modelserver.Namespace, Name: modelserver.ChatSecret, Prefix: modelserver.KeyPrefix, Generate: map[string]int{modelserver.ChatKey: 16}})
	}
	if len(g.Keys) == 0 {
		return out
	}
	keys := chart.Secret{Namespace: modelserver.Namespace, Name: modelserver.KeysSecret, Prefix: modelserver.KeyPrefix, Generate: map[string]int{}}
	for _, k := range g.Keys {
		keys.Generate[k.Name] = 16
	}
	return append(out, keys)
}

const (
	saltKey          = "salt-key"
	gatewayConfigKey = "config.yaml"
)

// config is LiteLLM's file: a model is one by its name, at its server.
func (g ModelGateway) config() (*corev1.ConfigMap, error) {
	var models []any
	for _, m := range g.Models {
		models = append(models, values{"model_name": m.Name, "litellm_params": values{
			"model":    "hosted_vllm/" + m.Name, // of either engine: their API is chat completions
			"api_base": fmt.Sprintf("http://%s.%s.svc:%d/v1", m.Name, modelserver.Namespace, modelserver.PortNumber), "api_key": "os.environ/" + engineKeyVariable,
		}})
	}
	text, err := yaml.Marshal(values{
		"model_list":       models,
		"general_settings": values{"disable_error_logs": true}, // they would fill the database
		"litellm_settings": values{"request_timeout": 600},     // 6000 s by default
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ModelGatewayName, err)
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: g.meta(modelserver.GatewayService),
		Data: map[string]string{gatewayConfigKey: string(text)}}, nil
}

const engineKeyVariable = "ENGINE_KEY"

func (g ModelGateway) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: g.meta(modelserver.GatewayService),
		Spec: corev1.ServiceSpec{Selector: ownLabels(modelserver.GatewayService), Ports: []corev1.ServicePort{{
			Name: modelserver.PortName, Protocol: corev1.ProtocolTCP, Port: modelserver.GatewayPort, TargetPort: intstr.FromString(modelserver.PortName),
		}}},
	}
}

func (g ModelGateway) deployment(s *Site, config string) *appsv1.Deployment {
	one, no, yes, user := int32(1), false, true, int64(gatewayUser)
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: g.meta(modelserver.GatewayService),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, // several would count limits apart, without a Redis
			Selector: &metav1.LabelSelector{MatchLabels: ownLabels(modelserver.GatewayService)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ownLabels(modelserver.GatewayService), Annotations: digestOf(config)},
				Spec: corev1.PodSpec{
					Tolerations: Tolerations(s.Taints()), AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user},
					Containers:      []corev1.Container{g.container()},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: modelserver.GatewayService}}}}},
				},
			},
		},
	}
}

func (g ModelGateway) container() corev1.Container {
	probe := func(path string, every, failures int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: every, TimeoutSeconds: 5, FailureThreshold: failures, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(modelserver.PortName), Scheme: corev1.URISchemeHTTP}}}
	}
	return corev1.Container{
		Name: "litellm", Image: gatewayImage, Env: g.env(),
		Args:  []string{"--port", fmt.Sprint(modelserver.GatewayPort), "--config", gatewayConfig + "/" + gatewayConfigKey},
		Ports: []corev1.ContainerPort{{Name: modelserver.PortName, ContainerPort: modelserver.GatewayPort, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{ // 4 GiB is what its documentation asks for (docs/proxy/prod.md)
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
		},
		StartupProbe:    probe("/health/readiness", 10, 60), // a first start makes all tables
		ReadinessProbe:  probe("/health/readiness", 10, 3),
		LivenessProbe:   probe("/health/liveliness", 15, 5), // so it is spelled
		SecurityContext: noCapabilities(),
		VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: gatewayConfig, ReadOnly: true}},
	}
}

// env has its secrets, and keeps it from the internet: lists of prices, news and templates are then those of the
// image (docs/proxy/config_settings.md).
func (g ModelGateway) env() []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "LITELLM_MODE", Value: "PRODUCTION"}, // it reads no .env
		{Name: "LITELLM_LOG", Value: "ERROR"},
	}
	for _, list := range []string{"MODEL_COST_MAP", "BLOG_POSTS", "POLICY_TEMPLATES", "ANTHROPIC_BETA_HEADERS", "AUTOROUTER_PRESETS"} {
		env = append(env, corev1.EnvVar{Name: "LITELLM_LOCAL_" + list, Value: "True"})
	}
	for _, v := range []struct{ name, secret, key string }{
		{"LITELLM_MASTER_KEY", modelserver.GatewayService, modelserver.MasterKey},
		{"LITELLM_SALT_KEY", modelserver.GatewayService, saltKey},
		{"DATABASE_URL", modelserver.GatewayDatabase + "-app", "uri"},
		{engineKeyVariable, modelserver.EngineSecret, modelserver.EngineKey},
	} {
		env = append(env, secretVariable(v.name, v.secret, v.key))
	}
	return env
}

func secretVariable(name, from, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: from}, Key: key}}}
}

// publish gives the gateway its hostname, if it has one, and the check that it asks for a key.
func (g ModelGateway) publish(p *Recipe, s *Site) {
	asks := func(where string, status int) error {
		if status == http.StatusUnauthorized {
			return nil
		}
		return fmt.Errorf("%s answers %d without a key: 401 is expected of LiteLLM", where, status)
	}
	if g.Hostname == "" {
		p.Verify = []verify.Check{{Name: "it asks for a key", Try: func(ctx context.Context, c verify.Cluster) (string, error) {
			res, err := c.Kube.AskService(ctx, kube.ServiceRequest{Namespace: modelserver.Namespace, Service: modelserver.GatewayService, Port: modelserver.PortName, Path: "/v1/models"})
			if err != nil {
				return "", err
			}
			defer func() { _ = res.Body.Close() }()
			return "model:verify asks it with one", asks("service "+modelserver.Namespace+"/"+modelserver.GatewayService, res.StatusCode)
		}}}
		return
	}
	s.requireParts(p, "issuer", "ingress")
	p.Web = &Web{Title: "language models", URL: s.scheme() + g.Hostname + "/v1", Checked: true}
	p.Verify = []verify.Check{{Name: "it asks for a key", Try: func(ctx context.Context, c verify.Cluster) (string, error) {
		page, err := c.Open(ctx, p.Web.URL+"/models")
		if err == nil {
			err = asks(p.Web.URL+"/models", page.Status)
		}
		return page.WithCertificate("model:verify asks it with one"), err
	}}}
	p.Before = append(p.Before, s.page(g.meta(modelserver.GatewayService), g.Hostname, modelserver.GatewayPort, gatewayTLS)...)
	p.Late = s.copiedCertificate(p.Part, modelserver.Namespace, gatewayTLS)
}
