package addon

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
)

// CiliumOptions configure Cilium as the cluster's network, instead of K3s' flannel and
// kube-proxy. K3s must run with flannel-backend: none, disable-network-policy,
// disable-kube-proxy, and disable: [servicelb] if Cilium also assigns addresses to Services.
type CiliumOptions struct {
	Common
	PodCIDR   netip.Prefix // of the cluster; K3s' default is 10.42.0.0/16
	APIServer string       // host at which every node reaches the API server; default 127.0.0.1, K3s' own proxy
	APIPort   int          // default 6444, that proxy's
	Encrypt   bool         // encrypt pods' traffic between nodes, with WireGuard
	Addresses bool         // it announces Services' addresses, see [CiliumPool]
	HubbleUI  bool
}

// Cilium provides the cluster's network. Nodes are not Ready before it runs, so it
// comes before everything else.
func Cilium(o CiliumOptions) (chart.Part, error) {
	if !o.PodCIDR.IsValid() {
		return chart.Part{}, errors.New("cilium: the pods' network is not set: it must be K3s' cluster-cidr")
	}
	if o.PodCIDR.Addr().Is6() {
		return chart.Part{}, errors.New("cilium: the pods' network is IPv6, and Cilium is set up for IPv4 alone: K3s' own flannel carries IPv6")
	}
	if o.APIServer == "" {
		o.APIServer = "127.0.0.1"
	}
	if o.APIPort == 0 {
		o.APIPort = 6444
	}
	v := values{
		// Without kube-proxy, the API server's Service does not work before Cilium does.
		"k8sServiceHost":       o.APIServer,
		"k8sServicePort":       o.APIPort,
		"kubeProxyReplacement": "true", // text, says the chart's schema
		"ipam": values{"mode": "cluster-pool", "operator": values{
			"clusterPoolIPv4PodCIDRList": []any{o.PodCIDR.Masked().String()}}},
		"operator": values{"replicas": o.few(2), "tolerations": o.tolerations(
			exists("node-role.kubernetes.io/control-plane", ""),
			exists("node-role.kubernetes.io/master", ""),
			exists("node.kubernetes.io/not-ready", ""),
			exists("node.cloudprovider.kubernetes.io/uninitialized", ""))},
	}
	if o.Encrypt {
		v["encryption"] = values{"enabled": true, "type": "wireguard"}
	}
	if o.Addresses {
		v["l2announcements"] = values{"enabled": true}
		// Each announced Service has a lease that is renewed every few seconds.
		v["k8sClientRateLimit"] = values{"qps": 20, "burst": 40}
	}
	if o.HubbleUI {
		v["hubble"] = values{"relay": values{"enabled": true}, "ui": values{"enabled": true}}
		o.tolerate(v, []string{"hubble", "relay"}, []string{"hubble", "ui"})
	}
	r, err := o.release("cilium", "kube-system", v)
	if err != nil {
		return chart.Part{}, err
	}
	return chart.Part{Name: "cilium", Release: r}, nil
}

// CiliumPoolOptions name the addresses that Cilium assigns to Services.
type CiliumPoolOptions struct {
	Addresses  []string              // ranges a-b or prefixes, of the nodes' network
	Reserved   map[string]netip.Addr // by namespace/name of the Service, or "ingress"
	Interfaces []string              // regular expressions; default: those of Ubuntu's virtual machines
}

// CiliumPool assigns addresses of the nodes' network to Services, and answers ARP for them.
// Cilium must run with [CiliumOptions.Addresses].
func CiliumPool(o CiliumPoolOptions) (chart.Part, error) {
	pool, err := newPool(o.Addresses, o.Reserved)
	if err != nil {
		return chart.Part{}, fmt.Errorf("cilium-pool: %w", err)
	}
	if o.Interfaces == nil {
		o.Interfaces = []string{"^ens[0-9]+", "^enp[0-9]+s[0-9]+", "^eth[0-9]+"}
	}
	var objects []runtime.Object
	add := func(name string, spec values) {
		objects = append(objects, object("cilium.io/v2", "CiliumLoadBalancerIPPool", meta("cilium-pool", "", name), spec))
	}
	var blocks []any
	for _, s := range pool.free {
		blocks = append(blocks, values{"start": s.from.String(), "stop": s.to.String()})
	}
	if len(blocks) > 0 {
		add(poolName, values{"blocks": blocks})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Reserved)) {
		namespace, svc, err := service(name)
		if err != nil {
			return chart.Part{}, fmt.Errorf("cilium-pool: %w", err)
		}
		a := o.Reserved[name].String()
		add(poolName+"-"+strings.ReplaceAll(namespace+"-"+svc, "/", "-"), values{
			"blocks": []any{values{"start": a, "stop": a}},
			// A pool with a selector is only for the Services that match it.
			"serviceSelector": values{"matchLabels": values{
				"io.kubernetes.service.namespace": namespace, "io.kubernetes.service.name": svc}},
		})
	}
	objects = append(objects, object("cilium.io/v2alpha1", "CiliumL2AnnouncementPolicy", meta("cilium-pool", "", poolName),
		values{"interfaces": o.Interfaces, "loadBalancerIPs": true, "externalIPs": true}))
	return chart.Part{Name: "cilium-pool", Needs: []string{"cilium"}, After: objects}, nil
}
