package guest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// apt-get upgrade brings held packages only by name, prints what it would do as apt 2.6 and 3.0 do, and
// asks for a restart after a kernel, until there is one.
func TestAptUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withDKMS(t, func(c *machine.Config) { c.Faults.ArchiveMovesOn = true })
		mustShell(t, m, "apt-get update; apt-get upgrade -y --with-new-pkgs; apt-mark hold linux-headers-generic linux-image-generic linux-generic linux-image-virtual")
		assert.Contains(t, mustShell(t, m, "apt-get -s upgrade --with-new-pkgs"), "0 upgraded, 0 newly installed, 0 to remove")
		const headers = "linux-headers-6.8.0-92-generic"
		mustShell(t, m, "apt-get remove -y curl "+headers+" linux-headers-generic; apt-get install -y curl")
		out := mustShell(t, m, "apt-get -s install linux-headers-generic")
		assert.Contains(t, out, "0 upgraded, 2 newly installed, 0 to remove")
		assert.Contains(t, out, "Inst "+headers+" (6.8.0-92.92 Ubuntu:24.04/noble-updates [amd64])\n")
		assert.Contains(t, out, "Conf linux-headers-generic (6.8.0.92.92 Ubuntu:24.04/noble-updates [amd64])\n")
		code, _ := shellAs(m, "root", "dpkg-query -W "+headers)
		assert.NotZero(t, code, "it is only shown")
		mustShell(t, m, "apt-get install -y linux-generic-hwe-24.04")
		assert.Equal(t, "*** System restart required ***\n", mustShell(t, m, "cat /run/reboot-required"))
	})
}
