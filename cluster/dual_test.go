package cluster_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

const bothFamilies = `
name: dual
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1, prefix6: "fd00:10::/64", gateway6: "fe80::1"}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11], addresses6: ["fd00:10::11"]}
  wk: {count: 1, addresses: [10.0.0.21], addresses6: ["fd00:10::21"]}
`

// Nodes, pods and services have IPv4 and IPv6 from the beginning; a cluster that has one family gets no
// second one, though its machines may.
func TestBothFamilies(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, bothFamilies)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Regexp(t, `(?m)^eth0 +UP +10\.0\.0\.21/24 fd00:10::21/64$`, ask(t, w.guests()["wk1"], "ip", "-br", "addr"))
		assert.Equal(t, "ip=10.0.0.21/24,ip6=fd00:10::21/64", w.vm(t, "wk1").Config["ipconfig0"])
		assert.Contains(t, ask(t, w.guests()["wk1"], "cat", "/etc/rancher/k3s/config.yaml"), "node-ip:\n- 10.0.0.21\n- fd00:10::21\n")
		config := ask(t, w.guests()["cp1"], "cat", "/etc/rancher/k3s/config.yaml")
		for _, want := range []string{"cluster-cidr: 10.42.0.0/16,fd00:42::/56\n", "service-cidr: 10.43.0.0/16,fd00:43::/112\n", "flannel-ipv6-masq: true\n"} {
			assert.Contains(t, config, want)
		}
		for name, at := range map[string]string{"cp1": "10.0.0.11", "wk1": "10.0.0.21"} {
			n := fmt.Sprint(w.node(name))
			assert.Regexp(t, `podCIDRs:\[10\.42\.\d\.0/24 fd00:42:[:0-9]*/64\]`, n)
			assert.Contains(t, n, fmt.Sprintf("[map[address:%s type:InternalIP] map[address:fd00:10::%s type:InternalIP]", at, at[len(at)-2:]))
		}
		// Another address of IPv6 takes another machine, as one of IPv4 does.
		c := w.cluster(t, parse(t, replace(t, bothFamilies, `addresses6: ["fd00:10::21"]`, `addresses6: ["fd00:10::22"]`)))
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "homelab node:replace -node=wk1")
		c.Close()
		w.down(t, spec)
	})
}

func TestSecondFamilyOfARunningCluster(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		// One server's machine cannot change, and another that is like the file could not join.
		old := replace(t, replace(t, bothFamilies, `, prefix6: "fd00:10::/64", gateway6: "fe80::1"`, ""), `, addresses6: ["fd00:10::11"]`, "")
		w.up(t, parse(t, replace(t, old, `, addresses6: ["fd00:10::21"]`, "")))
		c := w.cluster(t, parse(t, bothFamilies))
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "the cluster's pods have addresses of 10.42.0.0/16, and the file now gives them 10.42.0.0/16,fd00:42::/56: a cluster has one family or both from its beginning")
		c.Close()
	})
}
