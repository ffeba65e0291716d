package session

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// listSpec is a file for a simulated host, whose client is made by the test.
const listSpec = `
name: lab1
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  server1: {role: server, address: 10.0.0.11}
`

// The host's shell shows what Proxmox's API does not show about cards.
func TestGPUListOverSSH(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pvesim.EightA100()
		m.VMs[1].Config["hostpci0"] = "0000:a1:00"
		m.Hosts[0].PCI[1].HeldByHost = true // 0000:01:00
		w := newHostSite(t, m, "env:NONE")
		id, token := w.sim.Token()
		pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
		require.NoError(t, err)
		spec, err := cluster.Parse("cluster.yaml", []byte(listSpec))
		require.NoError(t, err)
		c, err := cluster.New(spec, cluster.Backend{Proxmox: pve, Dir: w.dir})
		require.NoError(t, err)
		defer c.Close()
		s := &Session{
			Console: &console.Console{Talk: &w.talk, Data: &w.data, Redact: &secret.Redactor{}},
			Spec:    spec, Cluster: c, hostWay: w.way,
		}
		require.NoError(t, GPUList(s, t.Context(), HostFlags{SSH: "root@pve1"}))
		golden(t, "gpu_list.txt", w.data.String())

		err = GPUList(s, t.Context(), HostFlags{Host: "pve2"})
		assert.Equal(t, invalid, code(err))
		assert.ErrorContains(t, err, "-host=pve2: the file has no such host; it has pve1")
	})
}
