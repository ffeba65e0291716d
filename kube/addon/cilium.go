package addon

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Cilium provides the cluster's network, instead of K3s' flannel and kube-proxy. Nodes are not
// Ready before it runs, so it comes before everything else.
//
// K3s must run with flannel-backend: none, disable-network-policy, disable-kube-proxy, and
// disable: [servicelb] if Cilium also assigns addresses to Services.
type Cilium struct {
	spec.Kubernetes
	Sealed bool           // containers may do only what they name, and the nodes run Talos Linux
	API    netip.AddrPort // where nodes reach the API without kube-proxy; not valid: K3s' proxy of it on every node
}

func (c Cilium) Info() Info {
	return Info{
		Name: "cilium", Section: "k3s.cni", On: c.Cilium(),
		Namespace: "kube-system",
		Chart: chart.Pin{
			Chart: "cilium", Repo: "https://helm.cilium.io",
			Version: "1.20.2", Kubernetes: ">=1.21.0-0", Compared: "2026-09-15",
			Source: "pinned: Go module proxy, 2026-09-15; read: 1.20.0 of 2026-07-29, Chart.yaml",
		},
		NeverInFleet: "no pod has a network before it, including Fleet's",
	}
}

func (c Cilium) Make(s *Site) (Recipe, error) {
	if len(c.PodCIDR) == 0 {
		return Recipe{}, errors.New("cilium: the pods' network is not set: it must be K3s' cluster-cidr")
	}
	if len(c.PodCIDR) > 1 || c.PodCIDR[0].Addr().Is6() {
		return Recipe{}, errors.New("cilium: the pods' network is IPv6, and Cilium is set up for IPv4 alone: K3s' own flannel carries IPv6")
	}
	api := netip.MustParseAddrPort("127.0.0.1:6444")
	if c.API.IsValid() {
		api = c.API
	}
	v := values{
		// Without kube-proxy, the API server's Service does not work before Cilium does.
		"k8sServiceHost":       api.Addr().String(),
		"k8sServicePort":       int(api.Port()),
		"kubeProxyReplacement": "true", // text, says the chart's schema
		"ipam": values{"mode": "cluster-pool", "operator": values{
			"clusterPoolIPv4PodCIDRList": []any{c.PodCIDR[0].Masked().String()}}},
		"operator": values{"replicas": s.replicas(2), "tolerations": s.tolerations(
			exists("node-role.kubernetes.io/control-plane", ""),
			exists("node-role.kubernetes.io/master", ""),
			exists("node.kubernetes.io/not-ready", ""),
			exists("node.cloudprovider.kubernetes.io/uninitialized", ""))},
	}
	if c.Sealed {
		maps.Copy(v, onTalos())
	}
	if s.Balancer != nil && s.Balancer.Kind == spec.LBCilium {
		v["l2announcements"] = values{"enabled": true}
		// Each announced Service has a lease that is renewed every few seconds.
		v["k8sClientRateLimit"] = values{"qps": 20, "burst": 40}
	}
	if s.Ingress.ByCilium() {
		maps.Copy(v, servingGateways())
		set(v, true, "operator", "rollOutPods")
	}
	p := Recipe{Part: chart.Part{Name: "cilium", Release: s.release(c.Info(), v)}, Network: true}
	s.requireParts(&p, "gateway-api")
	return p, nil
}

// servingGateways turns on the Gateway API. Its operator and agents read their ConfigMap when they start, so that changing it
// must restart them (templates/cilium-agent/daemonset.yaml, templates/cilium-operator/deployment.yaml).
func servingGateways() values {
	return values{
		"gatewayAPI":        values{"enabled": true, "gatewayClass": values{"create": "true"}}, // the definitions are there
		"rollOutCiliumPods": true,
	}
}

// onTalos is what differs on Talos Linux: KubePrism is its proxy of the API server, it mounts the cgroups itself, and it
// lets no container load kernel modules. Source: Talos' manual, "Deploy Cilium CNI" (1.13).
func onTalos() values {
	var of []any
	for _, name := range []string{"CHOWN", "KILL", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "SYS_ADMIN", "SYS_RESOURCE", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"} {
		of = append(of, name)
	}
	return values{
		"k8sServiceHost": "localhost", "k8sServicePort": 7445,
		"cgroup": values{"autoMount": values{"enabled": false}, "hostRoot": "/sys/fs/cgroup"},
		"securityContext": values{"capabilities": values{
			"ciliumAgent": of, "cleanCiliumState": []any{"NET_ADMIN", "SYS_ADMIN", "SYS_RESOURCE"}}},
	}
}

// CiliumPool assigns addresses of the nodes' network to Services by [Cilium], which answers ARP
// for them.
type CiliumPool struct{ *spec.LoadBalancer }

func (c CiliumPool) Info() Info {
	return Info{Name: "cilium-pool", Section: "loadBalancer", On: c.LoadBalancer != nil && c.Kind == spec.LBCilium}
}

func (c CiliumPool) Make(s *Site) (Recipe, error) {
	pool, err := newPool(c.Addresses, c.Reserved)
	if err != nil {
		return Recipe{}, fmt.Errorf("cilium-pool: %w", err)
	}
	var objects []runtime.Object
	add := func(name string, spec values) {
		objects = append(objects, object("cilium.io/v2", "CiliumLoadBalancerIPPool", meta("cilium-pool", "", name), spec))
	}
	var blocks []any
	for _, free := range pool.free {
		blocks = append(blocks, values{"start": free.from.String(), "stop": free.to.String()})
	}
	if len(blocks) > 0 {
		add(poolName, values{"blocks": blocks})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Reserved)) {
		namespace, svc, err := s.service(name)
		if err != nil {
			return Recipe{}, fmt.Errorf("cilium-pool: %w", err)
		}
		a := c.Reserved[name].String()
		add(poolName+"-"+strings.ReplaceAll(namespace+"-"+svc, "/", "-"), values{
			"blocks": []any{values{"start": a, "stop": a}},
			// A pool with a selector is only for the Services that match it.
			"serviceSelector": values{"matchLabels": values{
				"io.kubernetes.service.namespace": namespace, "io.kubernetes.service.name": svc}},
		})
	}
	interfaces := []string{"^ens[0-9]+", "^enp[0-9]+s[0-9]+", "^eth[0-9]+"} // of Ubuntu's virtual machines
	objects = append(objects, object("cilium.io/v2alpha1", "CiliumL2AnnouncementPolicy", meta("cilium-pool", "", poolName),
		values{"interfaces": interfaces, "loadBalancerIPs": true, "externalIPs": true}))
	return Recipe{Verify: givesAddresses(c.Addresses), Part: chart.Part{Name: "cilium-pool", Needs: []string{"cilium"}, After: objects}, Replaces: []string{"metallb"}}, nil
}
