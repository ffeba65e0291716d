package addon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/internal/serving"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/secret"
)

// Images of the engines. vLLM's needs a driver for CUDA 13, of branch 580 or later; llama.cpp's is for CUDA 12.
const (
	vllmImage  = "docker.io/vllm/vllm-openai:v0.30.0@sha256:8a69ffad015f138d7170c4ddc429e230a3bc1c1719f67e14324749df200a4b90"
	llamaImage = "ghcr.io/ggml-org/llama.cpp:server-cuda-b11206@sha256:3e7673cce183a55f97a1bc3c80817f3c61452483c13bc088a6766388af4775fe"
)

const (
	// weightsPath is where a server keeps its weights.
	weightsPath = "/weights"
	// modelStart is how long a server may download and load.
	modelStart = 2 * time.Hour
)

// Models serves language models by OpenAI's API, each on GPUs of its own.
type Models struct {
	Models    []spec.Model
	PoolLabel string // of nodes, with the name of their pool
	Gateway   bool   // a gateway is in front of them, so they ask for its key
	Zone      string // of their hours, such as Europe/Vienna
	Queue     string // Kueue's LocalQueue in which they wait for their turn; empty: none
}

// ModelURL is the address of a model for programs in the cluster.
func ModelURL(name, domain string) string {
	return fmt.Sprintf("http://%s.%s.svc.%s:%d/v1", name, modelserver.Namespace, cmp.Or(domain, "cluster.local"), modelserver.PortNumber)
}

func (m Models) Info() Info {
	return Info{Name: "models", Section: "models", On: len(m.Models) > 0, Namespace: modelserver.Namespace}
}

func (m Models) Make(s *Site) (Recipe, error) {
	p := Recipe{GPUs: true, TriedBy: "model:verify", Settle: modelStart, Part: chart.Part{Name: "models", Before: []runtime.Object{
		namespaceObject(modelserver.Namespace, ownLabels("models")),
	}}}
	if m.Gateway {
		p.Secrets = append(p.Secrets, chart.Secret{Namespace: modelserver.Namespace, Name: modelserver.EngineSecret, Generate: map[string]int{modelserver.EngineKey: 16}})
	}
	var errs []error
	for _, one := range m.Models {
		server := modelServer{Model: one, site: s, others: m.Models, pool: m.PoolLabel, gateway: m.Gateway, zone: m.Zone, queue: m.Queue, places: serving.Targets(serving.Places(s.Nodes, one))}
		if len(server.places) == 0 {
			errs = append(errs, fmt.Errorf("models: no node can serve %s", one.Name))
			continue
		}
		p.Before = append(p.Before, server.claim(), server.deployment(), server.service())
		s.requireParts(&p, s.Provider(one.Class))
		if !one.Token.IsZero() {
			token, err := s.Secret("models."+one.Name+".token", one.Token)
			errs = append(errs, err)
			p.Secrets = append(p.Secrets, chart.Secret{Namespace: modelserver.Namespace, Name: server.tokenSecret(), Data: map[string]secret.Value{tokenKey: token}})
		}
	}
	clock, err := m.clock(s)
	errs = append(errs, err)
	p.Before = append(p.Before, clock...)
	s.requireParts(&p, GPUOperatorName)
	if m.Queue != "" {
		s.requireParts(&p, KueueName)
	}
	return p, errors.Join(errs...)
}

// modelServer is one model and where it runs.
type modelServer struct {
	spec.Model
	site    *Site
	others  []spec.Model // all, with this one
	pool    string       // PoolLabel
	gateway bool
	zone    string
	queue   string
	places  []serving.Place
}

func (m modelServer) meta(name string) metav1.ObjectMeta {
	o := meta(m.Name, modelserver.Namespace, name)
	o.Labels[modelserver.ComponentLabel] = modelserver.Component
	return o
}

func (m modelServer) tokenSecret() string { return m.Name + "-token" }

// claimName has the class in it: a claim cannot change its class.
func (m modelServer) claimName() string { return m.Name + "-" + m.Class }

// claim is where the weights are kept, for all replicas and over restarts.
func (m modelServer) claim() *corev1.PersistentVolumeClaim {
	mode := corev1.ReadWriteOnce
	for _, p := range m.site.Made {
		if slices.ContainsFunc(p.Probes, func(p Probe) bool { return p.Class == m.Class && p.Mode == corev1.ReadWriteMany }) {
			mode = corev1.ReadWriteMany
		}
	}
	if m.Replicas > 1 {
		mode = corev1.ReadWriteMany
	}
	return claimOf(m.meta(m.claimName()), &m.Class, mode, *resource.NewQuantity(int64(m.Size), resource.BinarySI))
}

func (m modelServer) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: m.meta(m.Name),
		Spec: corev1.ServiceSpec{Selector: ownLabels(m.Name), Ports: []corev1.ServicePort{{
			Name: "http", Protocol: corev1.ProtocolTCP, Port: modelserver.PortNumber, TargetPort: intstr.FromString("http"),
		}}},
	}
}

func (m modelServer) deployment() *appsv1.Deployment {
	count, deadline := int32(m.Replicas), int32(modelStart/time.Second)
	replicas := &count
	labels := m.meta(m.Name).Labels
	if m.queue != "" {
		labels[QueueLabel] = m.queue
	}
	o := m.meta(m.Name)
	o.Annotations = map[string]string{modelserver.SourceNote: m.Source, modelserver.EngineNote: m.Engine}
	if m.Context > 0 {
		o.Annotations[modelserver.ContextNote] = strconv.Itoa(m.Context)
	}
	if m.Awake != "" { // the clock's
		replicas = nil
		o.Annotations[modelserver.AwakeNote] = m.Awake + " " + m.zone
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: o,
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas, ProgressDeadlineSeconds: &deadline, Strategy: m.strategy(),
			Selector: &metav1.LabelSelector{MatchLabels: ownLabels(m.Name)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: m.pod()},
		},
	}
}

// strategy starts a new server before the old one ends only if the cards suffice for both.
func (m modelServer) strategy() appsv1.DeploymentStrategy {
	room := 0
	for _, p := range m.places {
		room += p.Replicas * m.GPUs
	}
	for _, o := range m.others {
		room -= o.Replicas * o.GPUs
	}
	if room < m.GPUs && m.Replicas == 1 {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	more, fewer := intstr.FromInt32(1), intstr.FromInt32(0)
	if room < m.GPUs {
		more, fewer = fewer, more
	}
	return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &more, MaxUnavailable: &fewer}}
}

func (m modelServer) pod() corev1.PodSpec {
	class, no := nvidia.RuntimeClass, false
	pod := corev1.PodSpec{
		RuntimeClassName: &class, Affinity: m.affinity(), Tolerations: check.Tolerations(m.site.Taints()...),
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no, // a Service called vllm would set VLLM_PORT, which vLLM reads
		Containers:                   []corev1.Container{m.container()},
		Volumes: []corev1.Volume{{Name: "weights", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.claimName()},
		}}},
	}
	if m.Pinned() {
		pod.InitContainers = []corev1.Container{m.fetch()}
	}
	if m.Pool != "" {
		pod.NodeSelector = map[string]string{corev1.LabelHostname: m.Pool}
		for _, p := range m.places {
			if p.Node.Pool == m.Pool {
				pod.NodeSelector = map[string]string{m.pool: m.Pool}
			}
		}
	}
	if m.GPUs > 1 { // NCCL's processes exchange tensors there
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(8*int64(spec.GiB), resource.BinarySI)},
		}})
	}
	return pod
}

// affinity keeps a model from nodes on which it does not fit.
func (m modelServer) affinity() *corev1.Affinity {
	if len(m.places) == len(serving.Places(m.site.Nodes, m.Model)) {
		return nil
	}
	var fit []string
	for _, p := range m.places {
		fit = append(fit, p.Node.Name)
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: fit}}}},
	}}}
}

func (m modelServer) container() corev1.Container {
	c := corev1.Container{
		Name: "server", Image: cmp.Or(m.Image, vllmImage), Env: m.env(),
		Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: modelserver.PortNumber, Protocol: corev1.ProtocolTCP}},
		Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{nvidia.Resource: *resource.NewQuantity(int64(m.GPUs), resource.DecimalSI)}},
		VolumeMounts: []corev1.VolumeMount{{Name: "weights", MountPath: weightsPath}},
		// Until then it downloads and loads; a download that is interrupted continues.
		StartupProbe:    health(10, int(modelStart/time.Second)/10),
		ReadinessProbe:  health(10, 3),
		LivenessProbe:   health(20, 6),
		SecurityContext: noCapabilities(),
	}
	if m.GPUs > 1 {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
	}
	if m.Engine == spec.EngineLlamaCPP {
		c.Image, c.Command, c.Args = cmp.Or(m.Image, llamaImage), []string{"/app/llama-server"}, m.llamaArgs()
		return c
	}
	c.Command, c.Args = []string{"vllm", "serve"}, m.vllmArgs()
	return c
}

func health(every, failures int) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: int32(every), TimeoutSeconds: 5, FailureThreshold: int32(failures), ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP},
	}}
}

// hub is how an engine downloads for itself.
func (m modelServer) hub() []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "HF_HOME", Value: weightsPath}} // llama.cpp too: common/hf-cache.cpp
	if m.Engine != spec.EngineLlamaCPP {
		env = append(env, corev1.EnvVar{Name: "VLLM_NO_USAGE_STATS", Value: "1"})
	}
	if m.Mirror != "" {
		env = append(env, corev1.EnvVar{Name: "HF_ENDPOINT", Value: strings.TrimSuffix(m.Mirror, "/")})
	}
	return append(env, m.hubToken()...)
}

func (m modelServer) env() []corev1.EnvVar {
	var env []corev1.EnvVar
	if !m.Pinned() { // else it asks nothing of Hugging Face
		env = m.hub()
	}
	if m.gateway { // /health is open in both
		name := map[string]string{spec.EngineVLLM: "VLLM_API_KEY", spec.EngineLlamaCPP: "LLAMA_API_KEY"}[m.Engine]
		env = append(env, secretVariable(name, modelserver.EngineSecret, modelserver.EngineKey))
	}
	return env
}

// vllmArgs are flags of vllm serve (vllm/engine/arg_utils.py, read at an older version than the image). What
// decides memory is written out, so that another version's defaults do not change it.
func (m modelServer) vllmArgs() []string {
	args := []string{m.Source, "--served-model-name", m.Name, "--port", strconv.Itoa(modelserver.PortNumber),
		"--tensor-parallel-size", strconv.Itoa(m.GPUs),
		"--gpu-memory-utilization", strconv.FormatFloat(serving.Utilization/float64(m.places[0].Sharers), 'f', 3, 64),
		"--max-num-batched-tokens", strconv.Itoa(serving.Batch), "--max-num-seqs", strconv.Itoa(serving.Sequences)}
	if m.Revision != "" {
		args = append(args, "--revision", m.Revision)
	}
	if m.Context > 0 {
		args = append(args, "--max-model-len", strconv.Itoa(m.Context))
	}
	switch m.Quantization {
	case "fp8", "bitsandbytes": // which it makes of 16 bits; others it reads in the source's config.json
		args = append(args, "--quantization", m.Quantization)
	case "fp32", "bf16", "fp16":
		args = append(args, "--dtype", map[string]string{"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[m.Quantization])
	}
	if m.Cache == "fp8" {
		args = append(args, "--kv-cache-dtype", "fp8")
	}
	return args
}

// llamaArgs are the flags of b11206 (tools/server/README.md). Its context is for all conversations together.
func (m modelServer) llamaArgs() []string {
	args := append(m.llamaSource(), "--alias", m.Name, "--host", "0.0.0.0", "--port", strconv.Itoa(modelserver.PortNumber), "--no-mmproj",
		"--n-gpu-layers", "999", "--fit", "off", // all on the cards, or an error: it does not silently get slower
		"--ctx-size", strconv.Itoa(m.Context*m.Parallel), "--parallel", strconv.Itoa(m.Parallel), "--ubatch-size", strconv.Itoa(serving.MicroBatch))
	if strings.HasPrefix(m.Cache, "q") { // values of fewer bits need flash attention
		args = append(args, "--cache-type-k", m.Cache, "--cache-type-v", m.Cache, "--flash-attn", "on")
	}
	return args
}
