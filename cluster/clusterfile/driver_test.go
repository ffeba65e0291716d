package clusterfile

import (
	"fmt"
	"testing"

	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/stretchr/testify/require"
)

// Which sources of modules go with Secure Boot: what Canonical signs loads, what DKMS builds does
// not, and of a driver of your own nothing is known.
func TestSecureBootByMode(t *testing.T) {
	const file = `name: lab
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
proxmox: {endpoint: "https://10.0.0.5:8006", token: "a@pve!b", secret: env:S}
image: {distribution: ubuntu-24.04, secureBoot: %t}
nvidia: {stack: %s, driver: {mode: %s}}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}, wk: {count: 1, addresses: [10.0.0.21], gpus: 1}}
`
	for _, tc := range []struct {
		mode, stack string
		on, refused bool
	}{
		{"prebuilt", "device-plugin", false, false},
		{"prebuilt", "device-plugin", true, false},
		{"dkms", "device-plugin", false, false},
		{"dkms", "device-plugin", true, true},
		{"none", "device-plugin", false, false},
		{"none", "device-plugin", true, false},
	} {
		_, err := Parse("cluster.yaml", fmt.Appendf(nil, file, tc.on, tc.stack, tc.mode), platform.Check)
		if !tc.refused {
			require.NoError(t, err, tc)
			continue
		}
		require.ErrorContains(t, err, "modules that DKMS builds are not signed with a key of the firmware, so secure boot rejects them", tc)
		require.ErrorContains(t, err, "write mode: prebuilt, whose modules Ubuntu signs, or secureBoot: false")
	}
}
