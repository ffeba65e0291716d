package guest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
)

const mirrors = "http://deb." + "debian.org/"

const debianUser = "#cloud-config\nhostname: deb1\nssh_authorized_keys: [ssh-ed25519 AAAA a]\npackages: [qemu-guest-agent, xfsprogs]\n"

func TestDebianGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, debianUser)
		cfg.Disk = image.New("trixie")
		m := start(t, cfg)
		for command, want := range map[string]string{
			". /etc/os-release; echo $ID $VERSION_ID; uname -r":                           "debian 13\n" + archive.DebianKernel + "\n",
			"getent passwd debian | cut -d: -f1; cat /home/debian/.ssh/authorized_keys":   "debian\nssh-ed25519 AAAA a\n",
			"dpkg-query -W -f '${Version}\\n' xfsprogs; command -v mkfs.xfs":              "6.13.0-2+deb13u1\n/usr/bin/mkfs.xfs\n",
			"grep -h URIs /etc/apt/sources.list.d/debian.sources; cloud-init status":      "URIs: " + mirrors + "debian\nURIs: " + mirrors + "debian-security\nstatus: done\n",
			"apt-get install -y linux-generic 2>&1 | grep ^E; ls /etc/apt/sources.list.d": "E: Unable to locate package linux-generic\ndebian.sources\n",
		} {
			assert.Equal(t, want, mustShell(t, m, command), command)
		}
	})
}
