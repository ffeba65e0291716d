package kubeadmnodes

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
)

var (
	_ distribution.Distribution = (*Nodes)(nil)
	_ distribution.Forgetter    = (*Nodes)(nil)
	_ distribution.Inspector    = (*Nodes)(nil)
)

// TestSettings: what the file says of Kubernetes and of a node is in kubeadm's configuration.
func TestSettings(t *testing.T) {
	s := &spec.Spec{Name: "home", Distribution: spec.DistributionKubeadm, K3s: spec.K3s{
		Version: "v1.35.9", Kubernetes: spec.Kubernetes{
			TLSSANs: []string{"k8s.home.arpa"}, PodCIDR: spec.Ranges{netip.MustParsePrefix("10.44.0.0/16")},
			ServiceCIDR: spec.Ranges{netip.MustParsePrefix("10.45.0.0/16")}, ClusterDomain: "home.arpa", CNI: "cilium",
		},
	}}
	n := spec.Node{Name: "cp1", Role: spec.Server, Address: netip.MustParsePrefix("10.0.0.11/24"), Taints: []spec.Taint{{Key: "only", Value: "ml", Effect: "NoSchedule"}}}
	s.Nodes = []spec.Node{n}
	ns := New(s, nil) // serviceCIDR, clusterDomain and the others are not the defaults
	text, err := ns.clusterOf().Init(ns.nodeOf(n, distribution.Wish{ProviderID: "proxmox://home/101", Labels: map[string]string{"b": "2", "a": "1"}}))
	require.NoError(t, err)
	assert.Equal(t, `---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- ttl: 1m0s
nodeRegistration:
  name: cp1
  criSocket: unix:///run/containerd/containerd.sock
  taints:
  - key: only
    value: ml
    effect: NoSchedule
  kubeletExtraArgs:
  - name: node-ip
    value: 10.0.0.11
  - name: node-labels
    value: a=1,b=2
  - name: provider-id
    value: proxmox://home/101
localAPIEndpoint:
  advertiseAddress: 10.0.0.11
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: home
kubernetesVersion: v1.35.9
controlPlaneEndpoint: 10.0.0.11:6443
networking:
  podSubnet: 10.44.0.0/16
  serviceSubnet: 10.45.0.0/16
  dnsDomain: home.arpa
apiServer:
  certSANs:
  - k8s.home.arpa
proxy:
  disabled: true
`, string(text))
}
