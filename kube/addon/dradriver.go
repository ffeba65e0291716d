package addon

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// The part of NVIDIA's DRA driver, its namespace, and its driver and class.
const (
	DRADriverName      = "dra-driver"
	DRADriverNamespace = "dra-driver-nvidia-gpu"
	draDriver          = "gpu.nvidia.com"
)

// draImage has the driver; draHealth is the port at which it says that it lives.
const (
	draImage  = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.0"
	draHealth = 51516
)

// Folders of the node that the driver shares with the kubelet, where K3s has them, and with containerd.
const (
	kubeletPlugins  = "/var/lib/kubelet/plugins"
	kubeletRegistry = "/var/lib/kubelet/plugins_registry"
	cdiFolder       = "/var/run/cdi"
)

// DRADevices are the GPUs that nodes offer by the driver: a pod that requests one of nvidia.com/gpu gets a whole
// card.
func DRADevices() kube.Devices {
	return kube.Devices{Driver: draDriver, Type: "gpu", Resource: nvidia.Resource}
}

// DRADriver provides NVIDIA's driver for Dynamic Resource Allocation instead of a device plugin. The class of its
// GPUs has the name of the extended resource, so that pods request them as before: Kubernetes makes the claim.
//
// The objects are those of its chart (kubernetes-sigs/dra-driver-nvidia-gpu, v0.4.0, 6910a2be) for GPUs alone. The
// chart itself renders them only with gpuResourcesEnabledOverride, and adds what multi-node NVLink needs.
type DRADriver struct {
	spec.NVIDIA
	Nodes []spec.Node // with GPUs
}

func (d DRADriver) Info() Info {
	return Info{
		Name: DRADriverName, Section: "nvidia.stack", On: d.Stack == spec.StackDRA && len(d.Nodes) > 0,
		Namespace: DRADriverNamespace, NeverInFleet: "parts that need GPUs wait for it",
	}
}

func (d DRADriver) Make(s *Site) (Recipe, error) {
	role, account := meta(DRADriverName, "", DRADriverNamespace), meta(DRADriverName, DRADriverNamespace, DRADriverName)
	allow := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	class := object("resource.k8s.io/v1", "DeviceClass", meta(DRADriverName, "", draDriver), values{
		"extendedResourceName": nvidia.Resource,
		"selectors": []any{values{"cel": values{
			"expression": "device.driver == '" + draDriver + "' && device.attributes['" + draDriver + "'].type == '" + DRADevices().Type + "'"}}},
	})
	return Recipe{Offers: true, Replaces: []string{GPUOperatorName}, Part: chart.Part{Name: DRADriverName, Before: []runtime.Object{
		namespaceObject(DRADriverNamespace, privilegedLabels()),
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: account},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: role, Rules: []rbacv1.PolicyRule{
			allow("resource.k8s.io", "resourceclaims", "get", "list", "watch"),
			allow("resource.k8s.io", "resourceslices", "get", "list", "watch", "create", "update", "delete"),
			allow("", "nodes", "get", "list", "watch"),
		}},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: role,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
		},
		class, d.daemonSet(s, account),
	}}}, nil
}

// daemonSet runs the driver on every node with GPUs. It needs the driver's files of the machine, and not NVIDIA's
// runtime.
func (d DRADriver) daemonSet(s *Site, m metav1.ObjectMeta) *appsv1.DaemonSet {
	privileged, both, inside, all := true, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, intstr.FromString("100%")
	env := []corev1.EnvVar{
		{Name: "NVIDIA_DRIVER_ROOT", Value: "/"},
		{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}, // the image says "all"
		{Name: "KUBELET_REGISTRAR_DIRECTORY_PATH", Value: kubeletRegistry},
		{Name: "KUBELET_PLUGINS_DIRECTORY_PATH", Value: kubeletPlugins},
	}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	labels := map[string]string{"app.kubernetes.io/name": DRADriverName}
	return &appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: m,
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: m.Name, PriorityClassName: "system-node-critical", NodeSelector: nvidia.Labels(),
				Tolerations: check.Tolerations(s.Taints()...),
				InitContainers: []corev1.Container{{
					Name: "driver", Image: draImage, Command: []string{"bash", "/usr/bin/kubelet-plugin-prestart.sh"}, Env: env, // waits for the machine's driver
					SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
					VolumeMounts:    []corev1.VolumeMount{{Name: "driver-root", MountPath: "/driver-root-parent", ReadOnly: true}},
				}},
				Containers: []corev1.Container{{
					Name: "gpus", Image: draImage, Command: []string{"gpu-kubelet-plugin"},
					Env: append(env[:len(env):len(env)], corev1.EnvVar{Name: "CDI_ROOT", Value: cdiFolder}, corev1.EnvVar{Name: "IMAGE_NAME", Value: draImage},
						corev1.EnvVar{Name: "HEALTHCHECK_PORT", Value: "51516"}, field("NODE_NAME", "spec.nodeName"), field("NAMESPACE", "metadata.namespace")),
					SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
					StartupProbe:    alive(1, 600), LivenessProbe: alive(30, 3),
					VolumeMounts: []corev1.VolumeMount{
						{Name: "plugins-registry", MountPath: kubeletRegistry}, {Name: "plugins", MountPath: kubeletPlugins, MountPropagation: &both},
						{Name: "cdi", MountPath: cdiFolder}, {Name: "driver-root", MountPath: "/driver-root", MountPropagation: &inside},
					},
				}},
				Volumes: []corev1.Volume{
					folder("plugins-registry", kubeletRegistry, corev1.HostPathDirectoryOrCreate), folder("plugins", kubeletPlugins, corev1.HostPathDirectoryOrCreate),
					folder("cdi", cdiFolder, corev1.HostPathDirectoryOrCreate), folder("driver-root", "/", corev1.HostPathDirectory),
				},
			}},
		},
	}
}

// alive asks the driver whether it lives, every so many seconds.
func alive(seconds, failures int32) *corev1.Probe {
	service := "liveness"
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: draHealth, Service: &service}},
		PeriodSeconds: seconds, FailureThreshold: failures, TimeoutSeconds: 10,
	}
}
