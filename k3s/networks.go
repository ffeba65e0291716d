package k3s

import (
	"fmt"
	"math/bits"
	"net/netip"
)

// DefaultNetworks are the networks that K3s takes for pods and services if a server is told none,
// by the family of its address (pkg/util/net.go).
func DefaultNetworks(node netip.Addr) (pods, services netip.Prefix) {
	if node.Is6() {
		return netip.MustParsePrefix("fd00:42::/56"), netip.MustParsePrefix("fd00:43::/112")
	}
	return netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("10.43.0.0/16")
}

// CheckPodNetwork says what is wrong with the size of a pods' network, and what to do: each node
// takes a /24 or, with IPv6, a /64 of it (--node-cidr-mask-size), and Kubernetes counts 2^16 of
// them.
func CheckPodNetwork(pods netip.Prefix, nodes int) (what, do string) {
	each := 24
	if pods.Addr().Is6() {
		each = 64
	}
	switch room := each - pods.Bits(); {
	case room < 0 || room <= 16 && nodes > 1<<room:
		return fmt.Sprintf("%s is too small for %d nodes: each takes a /%d of it", pods, nodes, each), fmt.Sprintf("write one of /%d or wider", each-bits.Len(uint(max(nodes, 1)-1)))
	case room > 16:
		return fmt.Sprintf("%s is too wide: each node takes a /%d of it, and Kubernetes counts at most 65536", pods, each), fmt.Sprintf("write one of /%d or narrower", each-16)
	}
	return "", ""
}

// CheckServiceNetwork says what is wrong with the size of a services' network, and what to do: it
// has at most 2^20 addresses (--service-cluster-ip-range), and DNS has the tenth.
func CheckServiceNetwork(services netip.Prefix) (what, do string) {
	_, example := DefaultNetworks(services.Addr())
	low, high := 12, 28
	if services.Addr().Is6() {
		low, high = 108, 124
	}
	if services.Bits() < low || services.Bits() > high {
		return fmt.Sprintf("Kubernetes accepts no service network of the size of %s", services), fmt.Sprintf("write one from /%d to /%d, e.g. %s", low, high, example)
	}
	return "", ""
}
