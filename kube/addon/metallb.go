package addon

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
)

const (
	metallbNamespace = "metallb-system"
	metallbV1        = "metallb.io/v1beta1"
	poolName         = "homelab"
)

// MetalLBOptions name the addresses that Services get.
type MetalLBOptions struct {
	Common
	Addresses []string              // ranges a-b or prefixes, of the nodes' network
	Reserved  map[string]netip.Addr // by namespace/name of the Service, or "ingress"
}

// MetalLB assigns addresses of the nodes' network to Services, and answers ARP for them (layer
// 2). K3s must run without its own load balancer: disable: [servicelb].
//
// Reserved addresses are in a pool of their own, which is never assigned automatically; the
// Service requests its address with [AddressAnnotations].
func MetalLB(o MetalLBOptions) (chart.Part, error) {
	pool, err := newPool(o.Addresses, o.Reserved)
	if err != nil {
		return chart.Part{}, fmt.Errorf("metallb: %w", err)
	}
	v := values{
		// Layer 2 needs no routing daemon, which the chart runs on every node by default.
		"frrk8s": values{"enabled": false},
		// A speaker on every node, whatever its taints.
		"speaker": values{"tolerations": everywhere()},
	}
	o.tolerate(v, []string{"controller"})
	r, err := o.release("metallb", metallbNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
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
	if reserved := reservedRanges(o.Reserved); len(reserved) > 0 {
		add(poolName+"-reserved", values{"addresses": reserved, "autoAssign": false})
	}
	objects = append(objects, object(metallbV1, "L2Advertisement", meta("metallb", metallbNamespace, poolName), values{"ipAddressPools": pools}))
	return chart.Part{Name: "metallb", Release: r, NamespaceLabels: privileged(), After: objects}, nil
}

func reservedRanges(reserved map[string]netip.Addr) []any {
	addrs := slices.SortedFunc(maps.Values(reserved), netip.Addr.Compare)
	var out []any
	for _, a := range slices.Compact(addrs) {
		out = append(out, netip.PrefixFrom(a, a.BitLen()).String())
	}
	return out
}
