package plane

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/gpuoperator"
)

// sharing is the part of the device plugin's configuration that says how often each GPU is
// offered, and how divided ones are.
type sharing struct {
	Flags struct {
		MIGStrategy string `json:"migStrategy"`
	} `json:"flags"`
	Sharing struct {
		TimeSlicing, MPS struct {
			Resources []struct {
				Name     string `json:"name"`
				Replicas int    `json:"replicas"`
			} `json:"resources"`
		}
	} `json:"sharing"`
}

// shares is how the device plugin in a pod offers GPUs. It reads its ConfigMap once, as the
// plugin does; a new one takes effect with new pods.
func (k *kubelet) shares(ctx context.Context, m *member, plugin *corev1.Pod) (offered, error) {
	k.mu.Lock()
	known := m.shares
	k.mu.Unlock()
	if known.pod == plugin.UID {
		return known, nil
	}
	now := offered{pod: plugin.UID, times: 1}
	for _, v := range plugin.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		config, err := k.client.CoreV1().ConfigMaps(plugin.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return offered{}, err
		}
		data := config.Data
		if node, err := k.objects.Get(m.Name); err == nil {
			if name := gpuoperator.ConfigOf(node, plugin); name != "" {
				data = map[string]string{name: data[name]}
			}
		}
		for _, text := range data {
			times, strategy := replicas(text)
			now.times, now.strategy = max(now.times, times), strategy
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m.shares = now
	return now, nil
}

// replicas reads the number, and the strategy for divided GPUs, in a plugin's configuration; an
// invalid one shares nothing.
func replicas(config string) (times int, strategy string) {
	var c sharing
	if yaml.Unmarshal([]byte(config), &c) != nil {
		return 1, ""
	}
	for _, r := range slices.Concat(c.Sharing.TimeSlicing.Resources, c.Sharing.MPS.Resources) {
		if r.Name == string(gpuResource) {
			return max(1, r.Replicas), c.Flags.MIGStrategy
		}
	}
	return 1, c.Flags.MIGStrategy
}
