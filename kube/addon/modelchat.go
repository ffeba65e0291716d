package addon

import (
	"cmp"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube/chart"
)

// chatImage is Open WebUI's. The digest is the index's, as several public files of autumn 2026 pin it.
const chatImage = "ghcr.io/open-webui/open-webui:v0.11.4@sha256:9591b13f13843c7721c2b8eaf7382846c81b3ffe126526d1888d1fed50c6a33f"

const (
	modelChatName = "model-chat" // the part
	chatName      = spec.ChatService
	chatDatabase  = chatName + "-db"
	chatFiles     = chatName + "-files"
	chatTLS       = chatName + "-tls"
	chatPath      = "/app/backend/data" // DATA_DIR of its image
	chatSecretKey = "secret-key"
)

// ModelChat provides Open WebUI, behind a proxy by which people sign in, and its database.
//
// Open WebUI could sign people in by Dex itself. It then asks only once in a session who somebody is, keeps the role
// of who is in no group any more, and makes the first person its administrator (backend/open_webui/utils/oauth.py).
type ModelChat struct {
	*spec.ModelChat
	Platform *spec.Platform // whose login, models and gateway it uses
}

func (c ModelChat) Info() Info {
	return Info{
		Name: modelChatName, Section: "modelChat", On: c.ModelChat != nil && c.Platform.Login != nil, Namespace: modelserver.Namespace,
		NeverInFleet: "it would delete its database without asking",
	}
}

func (c ModelChat) Make(s *Site) (Recipe, error) {
	p := Recipe{
		Settle: 15 * time.Minute, // it downloads images, and makes the tables of its database
		Web:    &Web{Title: "chat", URL: s.scheme() + c.Hostname, Login: c.Platform.Issuer().Origin()},
		Part: chart.Part{
			Name:    modelChatName,
			Secrets: []chart.Secret{{Namespace: modelserver.Namespace, Name: chatName, Generate: map[string]int{chatSecretKey: 32, proxyCookieKey: 16}}},
			Before:  append([]runtime.Object{c.roles(), c.claim(), c.deployment(s), c.service()}, s.page(c.meta(chatName), c.Hostname, proxyPort, chatTLS)...),
			After:   []runtime.Object{c.database().object(s)},
		},
	}
	s.requireParts(&p, "issuer", "ingress", LoginName, ModelGatewayName, PostgresName, s.Provider(cmp.Or(c.StorageClass, s.DefaultClass)))
	var err error
	p.Late, err = c.proxy().signsIn(s, p.Part, s.copiedCertificate(p.Part, modelserver.Namespace, chatTLS), modelserver.Namespace)
	return p, err
}

func (c ModelChat) meta(name string) metav1.ObjectMeta {
	return meta(chatName, modelserver.Namespace, name)
}

// database has people, chats and settings: SQLite, its default, wants a disk of the node.
func (c ModelChat) database() database {
	return database{Database: spec.Database{Name: chatDatabase, Namespace: modelserver.Namespace, Instances: 1, Size: c.Size, StorageClass: c.StorageClass}}
}

// claim is where files are that people attach.
func (c ModelChat) claim() *corev1.PersistentVolumeClaim {
	var class *string
	if c.StorageClass != "" {
		class = &c.StorageClass
	}
	return claimOf(c.meta(chatFiles), class, corev1.ReadWriteOnce, *resource.NewQuantity(int64(c.Size), resource.BinarySI))
}

func (c ModelChat) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: c.meta(chatName),
		Spec: corev1.ServiceSpec{Selector: ownLabels(chatName), Ports: []corev1.ServicePort{{
			Name: "http", Protocol: corev1.ProtocolTCP, Port: proxyPort, TargetPort: intstr.FromString("http"),
		}}},
	}
}

func (c ModelChat) deployment(s *Site) *appsv1.Deployment {
	one, no := int32(1), false
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: c.meta(chatName),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, // several would need a Redis
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: ownLabels(chatName)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ownLabels(chatName), Annotations: digestOf(c.roles().Data[rolesFile])},
				Spec: corev1.PodSpec{
					Tolerations: Tolerations(s.Taints()), AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
					Containers: []corev1.Container{c.container(s), c.proxy().container(s), c.roleProxy()},
					Volumes: append([]corev1.Volume{
						{Name: "files", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: chatFiles}}},
						{Name: rolesVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: chatName}}}},
						{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					}, c.proxy().volumes()...),
				},
			},
		},
	}
}

// container is Open WebUI. Its image runs as root, and only the pod reaches it.
func (c ModelChat) container(s *Site) corev1.Container {
	// By way of the proxies, which let this one path pass.
	probe := func(every, failures int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: every, TimeoutSeconds: 5, FailureThreshold: failures, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: chatHealth, Port: intstr.FromInt32(proxyPort), Scheme: corev1.URISchemeHTTP}}}
	}
	return corev1.Container{
		Name: "open-webui", Image: chatImage, Env: c.env(s),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")},
		},
		StartupProbe: probe(10, 60), ReadinessProbe: probe(10, 3), LivenessProbe: probe(15, 5),
		SecurityContext: noCapabilities(),
		VolumeMounts:    []corev1.VolumeMount{{Name: "files", MountPath: chatPath}},
	}
}

// env are all its settings (docs/reference/env-configuration.mdx of its documentation, for v0.11): those of its own
// pages are forgotten at the next start, so that the file says what it is.
func (c ModelChat) env(s *Site) []corev1.EnvVar {
	gateway := fmt.Sprintf("http://%s.%s.svc:%d/v1", modelserver.GatewayService, modelserver.Namespace, modelserver.GatewayPort)
	at := s.scheme() + c.Hostname
	env := []corev1.EnvVar{
		{Name: "ENABLE_PERSISTENT_CONFIG", Value: "False"},
		{Name: "HOST", Value: "127.0.0.1"}, {Name: "PORT", Value: fmt.Sprint(webuiPort)},
		{Name: "WEBUI_URL", Value: at}, {Name: "CORS_ALLOW_ORIGIN", Value: at},
		{Name: "WEBUI_SESSION_COOKIE_SECURE", Value: pythonBool(s.TLS != nil)},
		// Who somebody is, the proxies say. It compares the name at each request, and takes the role when a session
		// of its own begins: without asking anybody, since the name is there.
		{Name: "WEBUI_AUTH_TRUSTED_EMAIL_HEADER", Value: nameHeader}, {Name: "WEBUI_AUTH_TRUSTED_NAME_HEADER", Value: nameHeader},
		{Name: "WEBUI_AUTH_TRUSTED_ROLE_HEADER", Value: roleHeader},
		{Name: "WEBUI_AUTH_SIGNOUT_REDIRECT_URL", Value: "/oauth2/sign_out"},
		{Name: "JWT_EXPIRES_IN", Value: "12h"}, {Name: "ENABLE_SIGNUP", Value: "False"}, {Name: "DEFAULT_USER_ROLE", Value: "user"},
		{Name: "BYPASS_MODEL_ACCESS_CONTROL", Value: "True"}, // its key says which models it has
		{Name: "OPENAI_API_BASE_URL", Value: gateway}, {Name: "ENABLE_OLLAMA_API", Value: "False"}, {Name: "ENABLE_DIRECT_CONNECTIONS", Value: "False"},
		{Name: "ENABLE_EVALUATION_ARENA_MODELS", Value: "False"},
		// Files go into the question as they are. An embedding model would be downloaded, or be one of the gateway's.
		{Name: "BYPASS_EMBEDDING_AND_RETRIEVAL", Value: "True"}, {Name: "RAG_EMBEDDING_ENGINE", Value: "openai"}, {Name: "RAG_OPENAI_API_BASE_URL", Value: gateway},
		{Name: "OFFLINE_MODE", Value: "True"}, {Name: "HF_HUB_OFFLINE", Value: "1"}, {Name: "ENABLE_COMMUNITY_SHARING", Value: "False"},
		{Name: "ANONYMIZED_TELEMETRY", Value: "False"}, {Name: "DO_NOT_TRACK", Value: "True"}, {Name: "SCARF_NO_ANALYTICS", Value: "True"},
		// Plugins are Python that runs beside its keys, and what they need is downloaded.
		{Name: "ENABLE_PLUGINS", Value: "False"}, {Name: "ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS", Value: "False"},
		{Name: "ENABLE_ADMIN_CHAT_ACCESS", Value: "False"}, {Name: "ENABLE_ADMIN_EXPORT", Value: "False"},
	}
	for _, v := range []struct{ name, secret, key string }{
		{"WEBUI_SECRET_KEY", chatName, chatSecretKey},
		{"DATABASE_URL", chatDatabase + "-app", "uri"},
		{"OPENAI_API_KEY", modelserver.ChatSecret, modelserver.ChatKey},
	} {
		env = append(env, secretVariable(v.name, v.secret, v.key))
	}
	return env
}

func pythonBool(is bool) string {
	if is {
		return "True"
	}
	return "False"
}
