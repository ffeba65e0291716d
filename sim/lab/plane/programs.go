package plane

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/sim/lab/operators"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// programs returns the cluster as the programs in pods see it.
func (p *plane) programs(disable []string, volumes *traffic.Volumes) *operators.Cluster {
	network := traffic.NewTraffic(p.ctx, p.client, p.control)
	network.Outside = p.outside
	out := &operators.Cluster{
		Kubeconfig: p.Kubeconfig(p.control.Config().Host), Address: p.address(),
		Config: p.control.Config(), Client: p.client, Dynamic: p.dynamic, Mapper: p.mapper, CA: p.control,
		Volumes: volumes, Traffic: network, Proxmox: p.proxmox, Log: p.log,
	}
	out.Disable(disable)
	return out
}

// packaged is what K3s ships, without what its configuration disables.
func packaged(disable []string) []byte {
	if slices.Contains(disable, "local-storage") {
		return k3sManifest
	}
	return bytes.Join([][]byte{k3sManifest, localStorageManifest}, []byte("---\n"))
}

// exec runs a command in the first container of a pod, in addition to its program.
func (k *kubelet) exec(ctx context.Context, pod *corev1.Pod, args []string) (code int, output string, err error) {
	m, up := k.member(pod.Spec.NodeName)
	if !up {
		return 0, "", fmt.Errorf("pod %s/%s: its node %s does not answer", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	all, err := k.containers(ctx, m, pod)
	if err != nil {
		return 0, "", err
	}
	c := all[1][0]
	c.Args = args
	code, output, _ = m.Run(ctx, c)
	return code, output, nil
}
