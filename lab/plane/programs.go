package plane

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/lab/operators"
	"github.com/cps-gpu/homelab/lab/traffic"
)

// programs returns the cluster as the programs in pods see it.
func (p *plane) programs(disable []string, volumes *traffic.Volumes) *operators.Cluster {
	ca := signer{p.cp.ca}
	return &operators.Cluster{
		Kubeconfig: p.Kubeconfig(p.cp.url()), Address: p.cp.address(),
		Config: p.cp.config, Client: p.cp.client, Dynamic: p.dynamic, Mapper: p.mapper, CA: ca,
		Volumes: volumes, Traffic: traffic.NewTraffic(p.ctx, p.cp.client, ca), Disable: disable, Log: p.log,
	}
}

// signer issues certificates of the cluster's CA to programs.
type signer struct{ *authority }

// PEM is the CA's own certificate.
func (s signer) PEM() []byte { return s.pem }

// Issue makes a server's certificate and key.
func (s signer) Issue(names ...string) (cert, key []byte, err error) {
	name := "simulated"
	if len(names) > 0 && names[0] != "" {
		name = names[0]
	}
	p, err := s.issue(name, "", names...)
	return p.cert, p.key, err
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
