package plane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/gpuoperator"
)

// shares is how the device plugin in a pod offers GPUs. It reads its ConfigMap once, as the
// plugin does; a new one takes effect with new pods.
func (k *kubelet) shares(ctx context.Context, m *member, node *corev1.Node, plugin *corev1.Pod) (offered, error) {
	k.mu.Lock()
	known := m.shares
	k.mu.Unlock()
	if known.pod == plugin.UID {
		return known, nil
	}
	times, strategy, err := gpuoperator.Shares(node, plugin, func(name string) (map[string]string, error) {
		config, err := k.client.CoreV1().ConfigMaps(plugin.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return config.Data, nil
	})
	if err != nil {
		return offered{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m.shares = offered{pod: plugin.UID, times: times, strategy: strategy}
	return m.shares, nil
}
