package guest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// apt-get installs packages from files without any archive, upgrades held ones if it may, needs what they depend on, and
// does nothing at all if one of the files is missing or has other content: seen of apt 2.6.1.
func TestAptInstallsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		m := withDKMS(t, func(c *machine.Config) {
			all := c.Internet
			c.Internet = func(url string) ([]byte, error) { asked += url + "\n"; return all(url) }
		})
		asked = ""
		mustShell(t, m, `mkdir /debs; cd /debs
for v in 1.20.0-1 1.20.1-1; do for p in nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1; do
	printf '!<arch>\n' > ${p}_${v}_amd64.deb
done; done
printf '<html>' > page_1_amd64.deb`)
		const version = "dpkg-query -W -f '${Version} ' nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1"
		for wrong, says := range map[string]string{
			"/debs/*_1.20.0-1_amd64.deb /debs/none_1_amd64.deb": "E: Unsupported file /debs/none_1_amd64.deb given on commandline",
			"/debs/*_1.20.0-1_amd64.deb /debs/page_1_amd64.deb": "E: Invalid archive signature",
			"/debs/nvidia-container-toolkit_1.20.0-1_amd64.deb": "unmet dependencies",
		} {
			code, out := shellAs(m, "root", "apt-get install -y "+wrong)
			assert.Equal(t, 100, code, wrong)
			assert.Contains(t, out, says)
			code, _ = shellAs(m, "root", version)
			assert.NotZero(t, code, "nothing of it is there")
		}
		mustShell(t, m, "cd /debs && apt-get install -y ./*_1.20.0-1_amd64.deb && apt-mark hold nvidia-container-toolkit")
		assert.Equal(t, "1.20.0-1 1.20.0-1 1.20.0-1 1.20.0-1 ", mustShell(t, m, version))
		mustShell(t, m, "test -x /usr/bin/nvidia-container-runtime")
		code, _ := shellAs(m, "root", "apt-get install -y /debs/*_1.20.1-1_amd64.deb")
		assert.Equal(t, 100, code, "it is held")
		mustShell(t, m, "apt-get install -y --allow-change-held-packages /debs/*_1.20.1-1_amd64.deb")
		assert.Equal(t, "1.20.1-1 1.20.1-1 1.20.1-1 1.20.1-1 ", mustShell(t, m, version))
		assert.Empty(t, asked)
	})
}
