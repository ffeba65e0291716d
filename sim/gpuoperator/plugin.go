package gpuoperator

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// ConfigLabel on a node names the configuration of its device plugin.
const ConfigLabel = "nvidia.com/device-plugin.config"

// Shares is how the device plugin in a pod offers the GPUs of a node: how often each whole one, and
// the strategy for divided ones. config reads a ConfigMap of the pod's namespace.
func Shares(node *corev1.Node, plugin *corev1.Pod, config func(name string) (map[string]string, error)) (times int, strategy string, err error) {
	times = 1
	for _, v := range plugin.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		data, err := config(v.ConfigMap.Name)
		if err != nil {
			return 0, "", err
		}
		if name := configOf(node, plugin); name != "" {
			data = map[string]string{name: data[name]}
		}
		for _, text := range data {
			var n int
			n, strategy = replicas(text)
			times = max(times, n)
		}
	}
	return times, strategy, nil
}

// configOf is the name of the configuration that a plugin of the operator uses on a node: that of
// the node's label, or else the default of the plugin's container; "" for other plugins.
func configOf(node *corev1.Node, plugin *corev1.Pod) string {
	for _, e := range plugin.Spec.Containers[0].Env {
		if e.Name == "DEFAULT_CONFIG" {
			return cmp.Or(node.Labels[ConfigLabel], e.Value)
		}
	}
	return ""
}

// replicas reads a plugin's configuration; one that it cannot read shares nothing.
func replicas(config string) (times int, strategy string) {
	type replicated struct {
		Resources []struct {
			Name     string `json:"name"`
			Replicas int    `json:"replicas"`
		} `json:"resources"`
	}
	var c struct {
		Flags struct {
			MIGStrategy string `json:"migStrategy"`
		} `json:"flags"`
		Sharing struct {
			TimeSlicing replicated `json:"timeSlicing"`
			MPS         replicated `json:"mps"`
		} `json:"sharing"`
	}
	if yaml.Unmarshal([]byte(config), &c) != nil {
		return 1, ""
	}
	for _, r := range slices.Concat(c.Sharing.TimeSlicing.Resources, c.Sharing.MPS.Resources) {
		if r.Name == "nvidia.com/gpu" {
			return max(1, r.Replicas), c.Flags.MIGStrategy
		}
	}
	return 1, c.Flags.MIGStrategy
}
