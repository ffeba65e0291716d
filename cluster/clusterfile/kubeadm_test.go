package clusterfile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
)

// What a file with kubeadm says is where that of K3s is, and what kubeadm cannot do is refused where it is asked for.
func TestKubeadm(t *testing.T) {
	const file = "name: x\ndistribution: kubeadm\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\n" +
		"pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}}\n"
	s, err := clusterfile.Parse("cluster.yaml", []byte(file+"kubeadm: {version: v1.35.9, tlsSANs: [k8s.home.arpa], upgrade: {wait: 5m, gpuPods: evict}}\n"))
	require.NoError(t, err)
	assert.Equal(t, []any{"v1.35.9", "cilium", "none", "cluster.local", "10.42.0.0/16", "evict", 5 * time.Minute},
		[]any{s.K3s.Version, s.K3s.CNI, s.K3s.FlannelBackend, s.K3s.ClusterDomain, s.K3s.PodCIDR[0].String(), s.K3s.Upgrade.GPUPods, s.K3s.Upgrade.Wait})
	assert.Zero(t, s.Kubeadm)
	assert.Equal(t, "cluster.yaml:6:20", s.Places["k3s.version"])
	s, err = clusterfile.Parse("cluster.yaml", []byte(file))
	require.NoError(t, err)
	assert.Equal(t, "v1.36.5", s.K3s.Version)
	s, err = clusterfile.Parse("cluster.yaml", []byte(file+"kubeadm: {vip: 10.0.0.9}\nnodes: {a: {role: server, address: 10.0.0.12}, b: {role: server, address: 10.0.0.13}}\n"))
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.9", s.APIAddress().String())

	for more, want := range map[string]string{
		"k3s: {version: v1.36.5+k3s1}":                                  "6:1: K3s is configured, and kubeadm runs Kubernetes",
		"kubeadm: {version: v1.36.5+k3s1}":                              `6:20: "v1.36.5+k3s1" is not a release of Kubernetes`,
		"kubeadm: {version: v1.29.1}":                                   "6:20: this kubeadm (v1.29.1) does not read",
		"kubeadm: {cni: flannel}":                                       "6:16: kubeadm brings no network for pods",
		"kubeadm: {vip: 10.0.1.9}":                                      "6:16: vip 10.0.1.9 is outside the network",
		"kubeadm: {podCIDR: 10.0.0.0/16}":                               "kubeadm.podCIDR",
		"nodes: {a: {external: u@10.0.0.30}}\nkubeadm: {runtime: crio}": "2:15: distribution: kubeadm cannot do this yet: the machine of a exists, and CRI-O is not taken off one again",
		"nvidia: {stack: operator}":                                     "6:17: distribution: kubeadm cannot do this yet: NVIDIA's operator and DRA driver",
		"nodes: {a: {role: server, address: 10.0.0.12}, b: {role: server, address: 10.0.0.13}}": "3 servers have no vip: nodes that joined through a server lose the API when it is down; write kubeadm: {vip: ...} with a free address",
		"nodes: {cp1: {cores: 1}}":       "cp1 has one core",
		"lab: {guests: qemu}":            "real guests of the lab",
		"ingress: traefik":               "ingress traefik is served by Traefik, which only K3s has",
		"loadBalancer: servicelb":        "the load balancer is servicelb, which only K3s has; write kind: metallb with addresses",
		"postgres: {databases: {a: {}}}": "2:15: there is no default storage class: storage defines none, and local-path is one that only K3s has; write storage: ",
		"lab: {kubernetes: real}":        "the lab's real control plane",
	} {
		_, err := clusterfile.Parse("cluster.yaml", []byte(file+more+"\n"))
		require.ErrorContains(t, err, want, more)
		assert.NotContains(t, err.Error(), "k3s.", more)
	}
	_, err = clusterfile.Parse("cluster.yaml", []byte("name: x\nkubeadm: {version: v1.36.5}\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\nnodes: {a: {role: server, address: 10.0.0.11}}\n"))
	require.ErrorContains(t, err, "2:1: kubeadm is configured, and does not run Kubernetes here")
}
