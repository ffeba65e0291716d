package k3s_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/k3s"
)

// What the cure says has room, and one bit less is too small.
func TestPodNetworksHaveRoom(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 4, 255, 256, 257, 5000} {
		for _, six := range []string{"10.0.0.0/%d", "fd00::/%d"} {
			narrow := netip.MustParsePrefix(fmt.Sprintf(six, map[bool]int{true: 25, false: 65}[six[0] == '1']))
			what, do := k3s.CheckPodNetwork(narrow, nodes)
			assert.NotEmpty(t, what)
			var bits int
			_, err := fmt.Sscanf(do, "write one of /%d or wider", &bits)
			assert.NoError(t, err, do)
			what, _ = k3s.CheckPodNetwork(netip.PrefixFrom(narrow.Addr(), bits), nodes)
			assert.Empty(t, what, "%d nodes in /%d", nodes, bits)
			what, _ = k3s.CheckPodNetwork(netip.PrefixFrom(narrow.Addr(), bits+1), nodes)
			assert.NotEmpty(t, what, "%d nodes in /%d", nodes, bits+1)
		}
	}
	for _, p := range []string{"10.42.0.10/16", "fd00:42::1/56"} {
		pods, services := k3s.DefaultNetworks(netip.MustParsePrefix(p).Addr())
		what, _ := k3s.CheckPodNetwork(pods, 100)
		assert.Empty(t, what)
		what, _ = k3s.CheckServiceNetwork(services)
		assert.Empty(t, what)
	}
	_, do := k3s.CheckPodNetwork(netip.MustParsePrefix("fd00::/32"), 3)
	assert.Equal(t, "write one of /48 or narrower", do)
	what, _ := k3s.CheckServiceNetwork(netip.MustParsePrefix("fd00::/64"))
	assert.Contains(t, what, "no service network of the size")
}
