package kubesim

import (
	"slices"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/sim/guest"
)

// offer is what a device plugin makes of a node's GPUs: its ConfigMap says it.
type offer struct {
	shares  int                 // how often it offers a whole GPU, by time-slicing or MPS
	devices map[string][]string // by resource
}

// offered is what the device plugin that runs in a pod offers.
func (c *Cluster) offered(p *corev1.Pod, gpus []guest.GPU) offer {
	type replicated struct {
		Resources []struct {
			Name     string `yaml:"name"`
			Replicas int    `yaml:"replicas"`
		} `yaml:"resources"`
	}
	var config struct {
		Flags struct {
			MIGStrategy string `yaml:"migStrategy"`
		} `yaml:"flags"`
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
	out := offer{shares: 1}
	out.devices, _ = guest.Offer(gpus, config.Flags.MIGStrategy) // one that fails waits, and offers nothing
	for _, r := range slices.Concat(config.Sharing.TimeSlicing.Resources, config.Sharing.MPS.Resources) {
		if r.Name == gpuResource && r.Replicas > 1 {
			out.shares = r.Replicas
		}
	}
	return out
}

// counts are how many of each resource a plugin offers.
func (o offer) counts() map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{}
	for name, uuids := range o.devices {
		out[corev1.ResourceName(name)] = int64(len(uuids))
	}
	out[gpuResource] *= int64(o.shares)
	return out
}

// offeredOn is what the device plugin of a node offers.
func (c *Cluster) offeredOn(node string, gpus []guest.GPU) offer {
	for _, e := range c.all("pods") {
		if p := typed[corev1.Pod](e); p.Spec.NodeName == node && isPlugin(p) {
			return c.offered(p, gpus)
		}
	}
	return offer{shares: 1}
}
