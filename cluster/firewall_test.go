package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Security groups come to VMs while they run, and to those that are recreated; one that does not exist is refused first.
func TestSecurityGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pvesim.OneGPU()
		m.SecurityGroups = []string{"k8s", "web"}
		w := newWorld(t, m)
		untouched := w.inventory()
		with := func(groups string) *spec.Spec {
			return parse(t, replace(t, replace(t, oneDisk, "gateway: 10.0.0.1}", "gateway: 10.0.0.1, firewall: true}"), "addresses: [10.0.0.21]", "addresses: [10.0.0.21]\n    securityGroups: "+groups))
		}
		id, token := w.sim.Token()
		pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
		require.NoError(t, err)
		firewall := func(name string) proxmox.Firewall {
			vm, err := pve.VMs.Get(t.Context(), "homelab-disks", name)
			require.NoError(t, err)
			f, err := pve.Firewall.Get(t.Context(), vm)
			require.NoError(t, err)
			return f
		}
		c := w.cluster(t, with("[k8s, nope]"))
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "there is no security group nope, for wk1")
		c.Close()
		assert.Equal(t, untouched, w.inventory())

		w.up(t, with("[k8s]"))
		assert.Empty(t, w.plan(t, with("[k8s]")))
		assert.Equal(t, []string{"k8s"}, firewall("wk1").Groups)
		assert.True(t, firewall("wk1").Enabled)
		assert.False(t, firewall("cp1").Enabled)

		boots := w.vm(t, "wk1").Config["smbios1"]
		w.up(t, with("[web, k8s]"))
		assert.Equal(t, []string{"web", "k8s"}, firewall("wk1").Groups)
		assert.Equal(t, boots, w.vm(t, "wk1").Config["smbios1"])
		require.NoError(t, w.verb(t, with("[web, k8s]"), replacements(t.Context(), "wk1", true)))
		assert.NotEqual(t, boots, w.vm(t, "wk1").Config["smbios1"])
		assert.Equal(t, []string{"web", "k8s"}, firewall("wk1").Groups)
		assert.Empty(t, w.plan(t, with("[web, k8s]")))

		w.up(t, with("[]"))
		assert.Empty(t, firewall("wk1").Groups)
		w.down(t, with("[]"))
		assert.Equal(t, untouched, w.inventory())
	})
}
