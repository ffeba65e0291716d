package nvidia

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

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

// digest is short, and changes with text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// MPSClients is how many pods may share a GPU by MPS; 0 if none should: MPS can limit a client's
// memory from Volta on (NVIDIA's MPS guide). It keeps no faults apart: on an H100 a wrong address in
// one client ended the programs of the others, and the Xid named one of those. The plugin counts 16 below compute capability 7.5, and 48 from there (cmd/mps-control-daemon/mps/device.go).
func (g GPU) MPSClients() int {
	switch g.Architecture {
	case Older, Kepler, Maxwell, Pascal:
		return 0
	case Volta:
		return 16
	}
	return 48
}

// CheckMPS says why pods cannot share cards of a model by MPS, and what to do.
func CheckMPS(model string, cards []GPU, replicas int) (what, do string) {
	clients := 0
	for _, g := range cards {
		clients = max(clients, g.MPSClients())
	}
	switch {
	case clients == 0:
		return fmt.Sprintf("the %s (%s) cannot be shared by MPS: before Volta it limits no pod's memory", model, cards[0].Architecture), "write sharing: {strategy: time-slicing, replicas: 4}"
	case replicas > clients:
		return fmt.Sprintf("MPS serves at most %d pods on a %s and replicas is %d", clients, model, replicas), fmt.Sprintf("write replicas: %d or less", clients)
	}
	return "", ""
}
