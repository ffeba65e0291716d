package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

const storageNetwork = `
name: cards
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk:
    count: 1
    addresses: [10.0.0.21]
    networks:
      storage: {bridge: vmbr1, mtu: 9000, prefix: 10.10.0.0/24, addresses: [10.10.0.21]}
      camera: {bridge: vmbr0, vlan: 30}
      office: {bridge: vmbr0, vlan: 40, dhcp: true}
`

// A machine has its further cards from the first boot on, each by its own name; a card that comes
// later, or another address, takes another machine.
func TestFurtherCards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].MTUs = map[string]int{"vmbr1": 9000}
		model.Hosts[0].Bridges = append(model.Hosts[0].Bridges, "vmbr1")
		w := newWorld(t, model)
		spec := parse(t, storageNetwork)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Regexp(t, `(?m)^eth0 +UP +10\.0\.0\.21/24$`, ask(t, w.guests()["wk1"], "ip", "-br", "addr"))
		assert.Regexp(t, `(?m)^storage +UP +10\.10\.0\.21/24$`, ask(t, w.guests()["wk1"], "ip", "-br", "addr"))
		assert.Regexp(t, `(?m)^office +UP +10\.0\.0\.\d+/26$`, ask(t, w.guests()["wk1"], "ip", "-br", "addr"))
		assert.Regexp(t, `(?m)^camera +UP *$`, ask(t, w.guests()["wk1"], "ip", "-br", "addr"))
		assert.Contains(t, w.vm(t, "wk1").Config["net1"], "bridge=vmbr1,mtu=9000")
		assert.Contains(t, w.vm(t, "wk1").Config["net2"], "bridge=vmbr0,tag=30")

		// The card's VLAN is the host's business; its address is the guest's.
		tagged := parse(t, replace(t, storageNetwork, "vlan: 30", "vlan: 31"))
		before := w.guests()["wk1"]
		w.up(t, tagged)
		assert.Same(t, before, w.guests()["wk1"], "no restart")
		assert.Contains(t, w.vm(t, "wk1").Config["net2"], "tag=31")
		for _, change := range [][2]string{{"addresses: [10.10.0.21]", "addresses: [10.10.0.22]"}, {"camera:", "printer: {bridge: vmbr0}\n      camera:"}} {
			c := w.cluster(t, parse(t, replace(t, storageNetwork, change[0], change[1])))
			_, err := c.Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, "homelab node:replace -node=wk1")
			c.Close()
		}
	})
}

// Nodes know each other by a further card's addresses, and others know them by the first card's. A
// server stays what etcd knows it as.
func TestKubernetesOnAFurtherCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].Bridges = append(model.Hosts[0].Bridges, "vmbr1")
		w := newWorld(t, model)
		file := replace(t, storageNetwork, "mtu: 9000, ", "")
		file = replace(t, file, "addresses: [10.0.0.11]}", "addresses: [10.0.0.11], networks: {storage: {bridge: vmbr1, prefix: 10.10.0.0/24, addresses: [10.10.0.11]}}}")
		moved := parse(t, file+"k3s: {network: storage}\n")
		w.up(t, moved)
		assert.Empty(t, w.plan(t, moved))
		assert.Equal(t, "10.10.0.11", w.nodes(t)["cp1"].InternalIP.String())
		assert.Equal(t, "10.10.0.21", w.nodes(t)["wk1"].InternalIP.String())
		for _, want := range []string{"flannel-iface: storage", "node-external-ip:\n- 10.0.0.21", "server: https://10.0.0.11:6443"} {
			assert.Contains(t, ask(t, w.guests()["wk1"], "cat", "/etc/rancher/k3s/config.yaml"), want)
		}
		for change, want := range map[string]string{
			"podCIDR":     "cp1: the cluster's pods have addresses of 10.42.0.0/16, and the file now gives them 10.64.0.0/16, which K3s cannot change",
			"serviceCIDR": "cp1: the cluster's services have addresses of 10.43.0.0/16, and the file now gives them 10.64.0.0/16",
		} {
			c := w.cluster(t, parse(t, file+"k3s: {network: storage, "+change+": 10.64.0.0/16}\n"))
			_, err := c.Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, want)
			c.Close()
		}
		c := w.cluster(t, parse(t, file))
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "cp1: etcd knows the server by its address 10.10.0.11, and the file now gives it 10.0.0.11")
	})
}

// Servers that are replaced one after the other get to another card.
func TestServersMoveToAnotherCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].Bridges = append(model.Hosts[0].Bridges, "vmbr1")
		w := newWorld(t, model)
		file := `
name: cards
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.10}
defaults: {networks: {storage: {bridge: vmbr1, prefix: 10.10.0.0/24}}}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11-10.0.0.13], memory: 4GiB, cores: 2, networks: {storage: {addresses: [10.10.0.11-10.10.0.13]}}}
`
		w.up(t, parse(t, file))
		moved := parse(t, replace(t, file, "vip: 10.0.0.10", "vip: 10.0.0.10, network: storage"))
		for _, name := range []string{"cp1", "cp2", "cp3"} {
			c := w.cluster(t, moved)
			g, err := c.NodeReplace(t.Context(), name, true)
			require.NoError(t, err)
			_, err = g.Run(t.Context(), w.listen(t))
			require.NoError(t, err, name)
			c.Close()
			assert.Contains(t, w.nodes(t)[name].InternalIP.String(), "10.10.0.1")
		}
		w.up(t, moved)
		assert.Empty(t, w.plan(t, moved))
	})
}
