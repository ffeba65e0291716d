package addon

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const (
	metallbNamespace = "metallb-system"
	metallbV1        = "metallb.io/v1beta1"
	metallbPeers     = "metallb.io/v1beta2"
	poolName         = "homelab"
)

// MetalLB assigns addresses to Services, and answers ARP for them in the nodes' network (layer
// 2), or announces them to routers by BGP. K3s must run without its own load balancer: disable: [servicelb].
//
// Reserved addresses are in a pool of their own, which is never assigned automatically; the
// Service requests its address with [AddressAnnotations].
type MetalLB struct{ *spec.LoadBalancer }

func (m MetalLB) Info() Info {
	return Info{
		Name: "metallb", Section: "loadBalancer", On: m.LoadBalancer != nil && m.Kind == spec.LBMetalLB,
		Namespace: metallbNamespace,
		Chart: chart.Pin{
			Chart: "metallb", Repo: "https://metallb.github.io/metallb",
			Version: "0.16.2", App: "v0.16.2", Kubernetes: ">=1.19.0-0", Compared: "2026-11-04",
			Source: "pinned: MetalLB's documentation, 2026-11-04; read: 0.16.1 of 2026-05-27, Chart.yaml",
		},
	}
}

func (m MetalLB) Make(s *Site) (Recipe, error) {
	pool, err := newPool(m.Addresses, m.Reserved)
	if err != nil {
		return Recipe{}, fmt.Errorf("metallb: %w", err)
	}
	v := values{
		// Layer 2 needs no routing daemon, which the chart runs on every node by default.
		"frrk8s": values{"enabled": m.BGP != nil},
		// A speaker on every node, whatever its taints.
		"speaker": values{"tolerations": everywhere()},
	}
	if m.BGP != nil {
		v["frr-k8s"] = values{"frrk8s": values{"tolerations": everywhere()}}
	}
	s.tolerate(v, []string{"controller"})
	r := s.release(m.Info(), v)
	var ranges []any
	for _, s := range pool.free {
		ranges = append(ranges, s.String())
	}
	var objects []runtime.Object
	var pools []any
	add := func(name string, spec values) {
		objects = append(objects, object(metallbV1, "IPAddressPool", meta("metallb", metallbNamespace, name), spec))
		pools = append(pools, name)
	}
	if len(ranges) > 0 {
		add(poolName, values{"addresses": ranges, "avoidBuggyIPs": true})
	}
	if reserved := reservedRanges(m.Reserved); len(reserved) > 0 {
		add(poolName+"-reserved", values{"addresses": reserved, "autoAssign": false})
	}
	kind := "L2Advertisement"
	if m.BGP != nil {
		kind = "BGPAdvertisement"
	}
	objects = append(objects, object(metallbV1, kind, meta("metallb", metallbNamespace, poolName), values{"ipAddressPools": pools}))
	peers, secrets, err := m.peers(s)
	if err != nil {
		return Recipe{}, fmt.Errorf("metallb: %w", err)
	}
	return Recipe{
		Part:     chart.Part{Name: "metallb", Release: r, NamespaceLabels: privilegedLabels(), Secrets: secrets, After: append(objects, peers...)},
		Replaces: []string{"cilium-pool"}, Verify: givesAddresses(m.Addresses),
	}, nil
}

// peers are the routers, with their passwords.
func (m MetalLB) peers(s *Site) (peers []runtime.Object, secrets []chart.Secret, err error) {
	if m.BGP == nil {
		return nil, nil, nil
	}
	for i, p := range m.BGP.Peers {
		name := fmt.Sprintf("%s-%d", poolName, i+1)
		peer := values{"myASN": int64(m.BGP.ASN), "peerASN": int64(cmp.Or(p.ASN, m.BGP.ASN)), "peerAddress": p.Address.String(), "peerPort": p.Port}
		if p.Multihop {
			peer["ebgpMultiHop"] = true
		}
		if !p.Password.IsZero() {
			password, err := s.Secret(fmt.Sprintf("loadBalancer.bgp.peers[%d].password", i), p.Password)
			if err != nil {
				return nil, nil, err
			}
			peer["passwordSecret"] = values{"name": name, "namespace": metallbNamespace}
			secrets = append(secrets, chart.Secret{Namespace: metallbNamespace, Name: name, Type: string(corev1.SecretTypeBasicAuth), Data: map[string]secret.Value{"password": password}})
		}
		peers = append(peers, object(metallbPeers, "BGPPeer", meta("metallb", metallbNamespace, name), peer))
	}
	return peers, secrets, nil
}

func reservedRanges(reserved map[string]netip.Addr) []any {
	addrs := slices.SortedFunc(maps.Values(reserved), netip.Addr.Compare)
	var out []any
	for _, a := range slices.Compact(addrs) {
		out = append(out, netip.PrefixFrom(a, a.BitLen()).String())
	}
	return out
}
