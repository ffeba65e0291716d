package addon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/goccy/go-yaml"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// pluginImage is NVIDIA's device plugin.
const pluginImage = "nvcr.io/nvidia/k8s-device-plugin:v0.20.1"

// PluginOptions configure how GPUs are offered to containers.
type PluginOptions struct {
	Name      string             // of the DaemonSet and ConfigMap; empty means nvidia.PluginName
	Namespace string             // empty means nvidia.PluginName
	Image     string             // empty means PluginImage
	Nodes     map[string]string  // only nodes that also have these labels, besides [nvidia.LabelPresent]; empty means all
	Taints    []corev1.Taint     // further taints on nodes with GPUs
	Sharing   string             // spec.SharingTimeSlicing or spec.SharingMPS; empty: pods have whole GPUs
	Replicas  int                // how often a shared GPU is offered; 2 or more
	MIG       nvidia.MIGStrategy // empty means none
}

// DevicePlugin returns the objects that make GPUs allocatable: a namespace, the configuration,
// and a DaemonSet on every node with [nvidia.LabelPresent]; with MPS also its control daemon. K3s
// creates the runtime class.
func DevicePlugin(o PluginOptions) ([]runtime.Object, error) {
	if o.Name == "" {
		o.Name = nvidia.PluginName
	}
	if o.Namespace == "" {
		o.Namespace = nvidia.PluginName
	}
	if o.Image == "" {
		o.Image = pluginImage
	}
	if o.MIG == "" {
		o.MIG = nvidia.MIGNone
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("NVIDIA device plugin: %w", err)
	}
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("NVIDIA device plugin: %w", err)
	}
	objects := []runtime.Object{o.namespace(), config, o.plugin(config.Data[configKey])}
	if o.Sharing == spec.SharingMPS {
		objects = append(objects, o.control(config.Data[configKey]))
	}
	return objects, nil
}

func (o PluginOptions) check() error {
	switch o.MIG {
	case nvidia.MIGNone, nvidia.MIGSingle, nvidia.MIGMixed:
	default:
		return fmt.Errorf("MIG strategy %q: want %s, %s or %s", o.MIG, nvidia.MIGNone, nvidia.MIGSingle, nvidia.MIGMixed)
	}
	switch o.Sharing {
	case "":
		if o.Replicas > 1 {
			return fmt.Errorf("%d replicas of a GPU that is not shared: choose %s or %s", o.Replicas, spec.SharingTimeSlicing, spec.SharingMPS)
		}
		return nil
	case spec.SharingTimeSlicing, spec.SharingMPS:
	default:
		return fmt.Errorf("sharing %q: want %s or %s, or nothing", o.Sharing, spec.SharingTimeSlicing, spec.SharingMPS)
	}
	if o.Replicas < 2 {
		return fmt.Errorf("%s with %d replicas shares nothing: want 2 or more", o.Sharing, o.Replicas)
	}
	if o.Sharing == spec.SharingMPS && o.MIG != nvidia.MIGNone {
		return fmt.Errorf("MPS does not work on instances of divided GPUs: choose one of the two")
	}
	return nil
}

// configKey is the file in the ConfigMap, mounted under configDir.
const (
	configKey = "config.yaml"
	configDir = "/etc/nvidia-device-plugin"
)

// pluginConfig is version v1 of the plugin's own format.
type pluginConfig struct {
	Version string `yaml:"version"`
	Flags   struct {
		MIGStrategy     nvidia.MIGStrategy `yaml:"migStrategy"`
		FailOnInitError bool               `yaml:"failOnInitError"`
	} `yaml:"flags"`
	Sharing *pluginSharing `yaml:"sharing,omitempty"`
}

type pluginSharing struct {
	TimeSlicing *replicatedResource `yaml:"timeSlicing,omitempty"`
	MPS         *replicatedResource `yaml:"mps,omitempty"`
}

type replicatedResource struct {
	// A request for two shares gives no more than one, so refuse it.
	FailRequestsGreaterThanOne bool              `yaml:"failRequestsGreaterThanOne,omitempty"`
	Resources                  []replicaResource `yaml:"resources"`
}

type replicaResource struct {
	Name     string `yaml:"name"`
	Replicas int    `yaml:"replicas"`
}

// Config returns the plugin's configuration, for a plugin that somebody else deploys.
func (o PluginOptions) Config() (string, error) {
	if o.MIG == "" {
		o.MIG = nvidia.MIGNone
	}
	if err := o.check(); err != nil {
		return "", fmt.Errorf("NVIDIA device plugin: %w", err)
	}
	config, err := o.config()
	if err != nil {
		return "", fmt.Errorf("NVIDIA device plugin: %w", err)
	}
	return config.Data[configKey], nil
}

func (o PluginOptions) config() (*corev1.ConfigMap, error) {
	c := pluginConfig{Version: "v1"}
	c.Flags.MIGStrategy = o.MIG
	shared := &replicatedResource{Resources: []replicaResource{{Name: nvidia.Resource, Replicas: o.Replicas}}}
	switch o.Sharing {
	case spec.SharingTimeSlicing:
		shared.FailRequestsGreaterThanOne = true
		c.Sharing = &pluginSharing{TimeSlicing: shared}
	case spec.SharingMPS: // which refuses such requests anyway
		c.Sharing = &pluginSharing{MPS: shared}
	}
	b, err := yaml.Marshal(c)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: o.meta(o.Name),
		Data:       map[string]string{configKey: string(b)},
	}, nil
}

func (o PluginOptions) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: o.Namespace, Labels: map[string]string{"app.kubernetes.io/name": name}}
}

func (o PluginOptions) namespace() *corev1.Namespace {
	return namespaceObject(o.Namespace, privilegedLabels())
}

func (o PluginOptions) plugin(config string) *appsv1.DaemonSet {
	container := corev1.Container{
		Name:            "plugin",
		Image:           o.Image,
		Command:         []string{"nvidia-device-plugin"},
		Env:             o.env(),
		SecurityContext: o.pluginSecurity(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "device-plugins", MountPath: "/var/lib/kubelet/device-plugins"},
			{Name: "config", MountPath: configDir, ReadOnly: true},
		},
	}
	volumes := []corev1.Volume{folder("device-plugins", "/var/lib/kubelet/device-plugins", corev1.HostPathDirectory), o.configVolume()}
	if o.Sharing == spec.SharingMPS {
		container.VolumeMounts = append(container.VolumeMounts, mpsMounts()...)
		volumes = append(volumes, mpsVolumes()...)
	}
	return o.daemonSet(o.Name, config, corev1.PodSpec{Containers: []corev1.Container{container}, Volumes: volumes})
}

func (o PluginOptions) pluginSecurity() *corev1.SecurityContext {
	if o.MIG != nvidia.MIGNone { // the plugin reads the instances' capabilities
		return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
	}
	return noCapabilities()
}

func (o PluginOptions) env() []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "CONFIG_FILE", Value: configDir + "/" + configKey},
		{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
		{Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "compute,utility"},
	}
	if o.MIG != nvidia.MIGNone {
		env = append(env, corev1.EnvVar{Name: "NVIDIA_MIG_MONITOR_DEVICES", Value: "all"})
	}
	if o.Sharing == spec.SharingMPS {
		env = append(env, corev1.EnvVar{Name: "MPS_ROOT", Value: mpsRoot})
	}
	return env
}

// daemonSet runs a pod on every node with a GPU.
func (o PluginOptions) daemonSet(name, config string, pod corev1.PodSpec) *appsv1.DaemonSet {
	class := nvidia.RuntimeClass
	pod.RuntimeClassName = &class
	pod.PriorityClassName = "system-node-critical"
	pod.NodeSelector = nvidia.Labels()
	maps.Copy(pod.NodeSelector, o.Nodes)
	pod.Tolerations = append([]corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}}, check.Tolerations(o.Taints...)...)
	labels := map[string]string{"app.kubernetes.io/name": name}
	all := intstr.FromString("100%") // the pods do not stand in for each other
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: o.meta(name),
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: digestOf(config)},
				Spec:       pod,
			},
		},
	}
}

// configDigest changes with the configuration, so that pods start again with it:
// the plugin reads it once.
const configDigest = "homelab.cps-gpu.github.com/config"

func digestOf(config string) map[string]string {
	sum := sha256.Sum256([]byte(config))
	return map[string]string{configDigest: hex.EncodeToString(sum[:6])}
}

func folder(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func (o PluginOptions) configVolume() corev1.Volume {
	return corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: o.Name}},
	}}
}

// RuntimeClass lets pods ask for NVIDIA's container runtime, where nothing else creates it.
func RuntimeClass() runtime.Object {
	return &nodev1.RuntimeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: nvidia.RuntimeClass}, Handler: nvidia.RuntimeClass,
	}
}
