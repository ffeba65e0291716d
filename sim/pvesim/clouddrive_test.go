package pvesim

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProxmoxsOwnCloudInitDrive makes a machine the way other clients do: without a
// seed of its own, by options that Proxmox turns into a disc.
func TestProxmoxsOwnCloudInitDrive(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201", "name", "plain")))
		const vm = "/nodes/pve1/qemu/201"
		require.Equal(t, 200, c.do("PUT", vm+"/config", "ide2", "vmdata:cloudinit", "ciuser", "student4", "ciupgrade", "0", "ipconfig0", "ip=10.0.0.31/24,gw=10.0.0.1",
			"sshkeys", url.PathEscape("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEd1ZXN0c0xpdmVIZXJlQW5kQW5zd2VyQ2FsbHNPZlRl t")).status)
		assert.Equal(t, "500 ide3 - cloud-init drive is already attached at 'ide2'", c.do("PUT", vm+"/config", "ide3", "vmdata:cloudinit").line())

		user := c.do("GET", vm+"/cloudinit/dump", "type", "user").text()
		assert.Contains(t, user, "hostname: plain\nmanage_etc_hosts: true\nfqdn: plain\nuser: student4\n")
		assert.NotContains(t, user, "package_upgrade")
		assert.Contains(t, c.do("GET", vm+"/cloudinit/dump", "type", "network").text(), "        address: '10.0.0.31'\n        netmask: '255.255.255.0'\n        gateway: '10.0.0.1'\n")

		require.Equal(t, "OK", c.wait(c.do("POST", vm+"/status/start")))
		time.Sleep(2 * time.Minute)
		conn, err := s.Network().Dial(context.Background(), "tcp", "10.0.0.31:22")
		require.NoError(t, err, "the guest has the address that ipconfig0 gives it")
		require.NoError(t, conn.Close())
		assert.Equal(t, "plain", s.VMs()[2].Guest.Hostname())

		require.Equal(t, 200, c.do("PUT", vm+"/config", "ciuser", "student1").status)
		assert.Contains(t, c.do("GET", vm+"/cloudinit").body, `{"key":"ciuser","pending":"student1","value":"student4"}`, "the disc is that of the start")
		require.Equal(t, 200, c.do("PUT", vm+"/cloudinit").status)
		assert.NotContains(t, c.do("GET", vm+"/cloudinit").body, "student4")
	})
}
