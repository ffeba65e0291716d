package kubesim

import (
	"slices"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"
)

// shares is how often the device plugin that runs in a pod offers each GPU, by
// time-slicing or MPS: what its ConfigMap says.
func (c *Cluster) shares(p *corev1.Pod) int {
	type replicated struct {
		Resources []struct {
			Name     string `yaml:"name"`
			Replicas int    `yaml:"replicas"`
		} `yaml:"resources"`
	}
	var config struct {
		Sharing struct {
			TimeSlicing replicated `yaml:"timeSlicing"`
			MPS         replicated `yaml:"mps"`
		} `yaml:"sharing"`
	}
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		e := c.get(mustKind("configmaps"), p.Namespace, v.ConfigMap.Name)
		if e == nil {
			continue
		}
		data := typed[corev1.ConfigMap](e).Data
		if name := c.operatorConfig(p); name != "" {
			data = map[string]string{name: data[name]}
		}
		for _, text := range data {
			_ = yaml.Unmarshal([]byte(text), &config) // a plugin that cannot read it shares nothing
		}
	}
	for _, r := range slices.Concat(config.Sharing.TimeSlicing.Resources, config.Sharing.MPS.Resources) {
		if r.Name == gpuResource && r.Replicas > 1 {
			return r.Replicas
		}
	}
	return 1
}

// sharesOn is how often the GPUs of a node are offered.
func (c *Cluster) sharesOn(node string) int {
	for _, e := range c.all("pods") {
		if p := typed[corev1.Pod](e); p.Spec.NodeName == node && isPlugin(p) {
			return c.shares(p)
		}
	}
	return 1
}
