package k3s_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/k3s"
)

var testVIP = k3s.VIP{Address: netip.MustParseAddr("10.0.0.100"), Interface: "ens18", Services: true}

// environment returns the variables of kube-vip's container that matter: the
// generator writes some that only DNS names and DHCP addresses need.
func environment(daemonSet map[string]any) map[string]any {
	spec := daemonSet["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	out := map[string]any{"hostNetwork": spec["hostNetwork"], "tolerations": len(spec["tolerations"].([]any))}
	container := spec["containers"].([]any)[0].(map[string]any)
	out["image"], out["args"], out["securityContext"] = container["image"], container["args"], container["securityContext"]
	for _, e := range container["env"].([]any) {
		v := e.(map[string]any)
		if name := v["name"].(string); name != "dns_mode" && name != "dhcp_mode" {
			out[name] = v["value"]
		}
	}
	return out
}

func TestKubeVIP(t *testing.T) {
	m, err := k3s.KubeVIP(testVIP)
	require.NoError(t, err)
	golden(t, "kube-vip.yaml", m)
	_, err = k3s.KubeVIP(k3s.VIP{})
	assert.EqualError(t, err, "kube-vip: the address is not set")
	_, err = k3s.KubeVIP(k3s.VIP{Address: testVIP.Address, LeaseDuration: 5 * time.Second})
	assert.ErrorContains(t, err, "each must be shorter than the one before")
	for _, ms := range [][3]time.Duration{{9000, 9000, 2000}, {15000, 2000, 2000}, {15000, 2000, 3000}, {3000, 10000, 2000}, {15000, 10000, 999}} {
		_, err = k3s.KubeVIP(k3s.VIP{Address: testVIP.Address, LeaseDuration: ms[0] * time.Millisecond,
			RenewDeadline: ms[1] * time.Millisecond, RetryPeriod: ms[2] * time.Millisecond})
		assert.ErrorContains(t, err, "each must be shorter than the one before", "%v", ms)
	}
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{"nonsense", "v1.35.9+k3s2", "v1.36.5-rc1+k3s1", "v1.36.5+k3s1", "v1.36.5+k3s2", "v1.36.10+k3s1", "v1.37.0+k3s1"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			assert.Equal(t, want, k3s.CompareVersions(a, b), "%s and %s", a, b)
		}
	}
}
