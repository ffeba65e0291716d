package addon

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// mpsRoot is the folder on the node that the control daemon and the plugin share.
const mpsRoot = "/run/nvidia/mps"

// control is the MPS control daemon, without which a plugin that shares by MPS
// never becomes ready. NVIDIA's chart runs it on nodes that GPU feature discovery
// has labelled; here the configuration is the same for all nodes with a GPU.
func (o PluginOptions) control(config string) *appsv1.DaemonSet {
	yes := true
	privileged := &corev1.SecurityContext{Privileged: &yes}
	both := corev1.MountPropagationBidirectional
	return o.daemonSet(o.Name+"-mps", config, corev1.PodSpec{
		InitContainers: []corev1.Container{{
			Name:            "mount-shm",
			Image:           o.Image,
			Command:         []string{"mps-control-daemon", "mount-shm"},
			SecurityContext: privileged,
			VolumeMounts:    []corev1.VolumeMount{{Name: "mps-root", MountPath: "/mps", MountPropagation: &both}},
		}},
		Containers: []corev1.Container{{
			Name:    "control",
			Image:   o.Image,
			Command: []string{"mps-control-daemon"},
			Env: append(o.env(), corev1.EnvVar{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"},
			}}),
			SecurityContext: privileged,
			VolumeMounts:    append(mpsMounts(), corev1.VolumeMount{Name: "config", MountPath: configDir, ReadOnly: true}),
		}},
		Volumes: append(mpsVolumes(), o.configVolume()),
	})
}

func mpsMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{{Name: "mps-shm", MountPath: "/dev/shm"}, {Name: "mps-root", MountPath: "/mps"}}
}

func mpsVolumes() []corev1.Volume {
	return []corev1.Volume{
		folder("mps-root", mpsRoot, corev1.HostPathDirectoryOrCreate),
		folder("mps-shm", mpsRoot+"/shm", corev1.HostPathUnset),
	}
}
