package config_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

func example() *spec.Spec {
	prefix := netip.MustParsePrefix("10.0.0.0/24")
	s := &spec.Spec{Name: "home"}
	s.K3s.Kubernetes = spec.Kubernetes{VIP: netip.MustParseAddr("10.0.0.10"), ClusterDomain: "cluster.local", CNI: "cilium", TLSSANs: []string{"api.home.example"},
		PodCIDR: spec.Ranges{netip.MustParsePrefix("10.42.0.0/16")}, ServiceCIDR: spec.Ranges{netip.MustParsePrefix("10.43.0.0/16")}}
	s.K3s.FlannelBackend, s.K3s.Registries = "vxlan", []spec.Registry{{Name: "docker.io", Endpoints: []string{"https://mirror.home.example"}}}
	s.Guest.Sysctls = map[string]string{"vm.max_map_count": "1048576"}
	at := func(last byte) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), prefix.Bits())
	}
	s.Nodes = []spec.Node{
		{Name: "cp1", Role: spec.Server, Address: at(11), MAC: spec.MAC{0xbc, 0x24, 0x11, 0, 0, 1}},
		{Name: "gpu1", Role: spec.Agent, Address: at(21), MAC: spec.MAC{0xbc, 0x24, 0x11, 0, 0, 2}, GPUs: spec.GPURequest{Count: 1},
			Labels: map[string]string{"home.example/rack": "a"}, Taints: []spec.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}}},
	}
	return s
}

// randomSpec is a completed file of up to three servers and three agents: all that package clusterfile lets pass, in any combination.
func randomSpec(r *rand.Rand) *spec.Spec {
	s := example()
	k := &s.K3s
	k.CNI = pick(r, "", "flannel", "cilium")
	k.FlannelBackend = pick(r, "vxlan", "none")
	k.ClusterDomain = pick(r, "cluster.local", "k8s.home.example")
	k.SecretsEncryption = pick(r, spec.On, 0)
	if maybe(r) {
		k.TLSSANs = nil
	}
	servers := 1 + 2*r.IntN(2)
	if servers == 1 && maybe(r) {
		k.VIP = netip.Addr{}
	}
	both := maybe(r)
	if both {
		k.PodCIDR = append(k.PodCIDR, netip.MustParsePrefix("fd00:42::/56"))
		k.ServiceCIDR = append(k.ServiceCIDR, netip.MustParsePrefix("fd00:43::/112"))
		if maybe(r) {
			k.PodCIDR[0], k.PodCIDR[1] = k.PodCIDR[1], k.PodCIDR[0]
			k.ServiceCIDR[0], k.ServiceCIDR[1] = k.ServiceCIDR[1], k.ServiceCIDR[0]
		}
	} else if maybe(r) {
		k.Network = "fast"
	}
	k.Registries = randomRegistries(r)
	s.Guest.Sysctls = pick(r, nil, map[string]string{"net.core.somaxconn": "1024", "vm.swappiness": "1"})
	s.Guest.KernelModules = pick(r, nil, []string{"br_netfilter", "nvidia", "rbd"})
	s.Nodes = nil
	for i := range servers + r.IntN(4) {
		s.Nodes = append(s.Nodes, randomNode(r, s, i, i < servers, both))
	}
	return s
}

func randomNode(r *rand.Rand, s *spec.Spec, i int, server, both bool) spec.Node {
	n := spec.Node{Name: fmt.Sprintf("n%d", i), Role: spec.Agent, MAC: spec.MAC{0xbc, 0x24, 0x11, 0, byte(r.IntN(256)), byte(i)}}
	if server {
		n.Role = spec.Server
	}
	if server || s.K3s.Network != "" || both || r.IntN(5) > 0 { // else DHCP
		n.Address = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)}), 24)
	}
	if both {
		n.Address6 = netip.MustParsePrefix(fmt.Sprintf("fd00:10::%x/64", 11+i))
	}
	if s.K3s.Network != "" {
		n.Networks = []spec.Card{{Name: "fast", Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 10, 0, byte(11 + i)}), 24)}}
	}
	if !server && maybe(r) {
		n.GPUs.Count = 1 + r.IntN(4)
		n.Taints = []spec.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}}
	}
	if maybe(r) {
		n.Labels = map[string]string{"home.example/rack": "a", "zone": ""}
		n.Taints = append(n.Taints, spec.Taint{Key: "dedicated", Effect: pick(r, "NoSchedule", "PreferNoSchedule", "NoExecute")})
	}
	return n
}

func randomRegistries(r *rand.Rand) []spec.Registry {
	all := []spec.Registry{
		{Name: "docker.io", Endpoints: []string{"https://mirror.home.example", "http://10.0.0.5:5000/v2/hub"}},
		{Name: "*", Endpoints: []string{"https://all.home.example:5000"}, Insecure: true},
		{Name: "harbor.home.example", Insecure: true},
	}
	var out []spec.Registry
	for _, one := range all {
		if maybe(r) {
			out = append(out, one)
		}
	}
	return out
}

func maybe(r *rand.Rand) bool { return r.IntN(2) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
