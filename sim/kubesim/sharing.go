package kubesim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/sim/gpuoperator"
	"github.com/cps-gpu/homelab/sim/guest"
)

// offer is what a device plugin makes of a node's GPUs: its ConfigMap says it.
type offer struct {
	shares  int                 // how often it offers a whole GPU, by time-slicing or MPS
	devices map[string][]string // by resource
}

// offerOf is what the device plugin that runs in a pod offers.
func (c *machines) offerOf(p *corev1.Pod, gpus []guest.GPU) offer {
	node := &corev1.Node{}
	if e := c.get(mustKind("nodes"), "", p.Spec.NodeName); e != nil {
		node = entryAs[corev1.Node](e)
	}
	times, strategy, _ := gpuoperator.Shares(node, p, func(name string) (map[string]string, error) {
		if e := c.get(mustKind("configmaps"), p.Namespace, name); e != nil {
			return entryAs[corev1.ConfigMap](e).Data, nil
		}
		return nil, nil
	})
	devices, _ := guest.Offer(gpus, strategy) // a plugin that fails waits, and offers nothing
	return offer{shares: times, devices: devices}
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
func (c *machines) offeredOn(node string, gpus []guest.GPU) offer {
	for _, e := range c.all("pods") {
		if p := entryAs[corev1.Pod](e); p.Spec.NodeName == node && isPlugin(p) {
			return c.offerOf(p, gpus)
		}
	}
	return offer{shares: 1}
}
