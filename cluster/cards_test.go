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
		defer w.close()
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
