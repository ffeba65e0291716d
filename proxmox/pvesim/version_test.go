package pvesim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionsDiffer(t *testing.T) {
	for _, x := range []struct {
		version               string
		message, imports, dir bool
		rules, pressure, nine bool
	}{
		{version: "8.2.4"},
		{version: "8.4.1", message: true, imports: true, dir: true},
		{version: "9.2.11", message: true, imports: true, dir: true, rules: true, pressure: true, nine: true},
	} {
		m := EightA100()
		m.Version = x.version
		in(t, m, Options{}, func(t *testing.T, s *Sim, _ *caller) {
			c := asRoot(t, s)
			missing := c.do("GET", "/nodes/pve1/qemu/300/config")
			assert.Equal(t, "500 Configuration file 'nodes/pve1/qemu-server/300.conf' does not exist", missing.line(), "the text is in the status line in any version")
			assert.Equal(t, x.message, containsKey(missing.body, "message"), "%s: in the body from 8.4 on", x.version)
			got := c.do("POST", "/nodes/pve1/storage/local/download-url", "content", "import", "filename", "n.qcow2", "url", nobleURL)
			assert.Equal(t, x.imports, got.status == 200, x.version)
			assert.Equal(t, x.dir, c.do("GET", "/cluster/mapping/dir").status == 200, x.version)
			assert.Equal(t, x.rules, c.do("GET", "/cluster/ha/rules").status == 200, x.version)
			assert.Equal(t, x.pressure, containsKey(c.do("GET", "/nodes/pve1/qemu/100/status/current").body, "pressurecpusome"), x.version)
			assert.Equal(t, x.nine, containsKey(c.do("GET", "/access/roles/Administrator").body, "VM.GuestAgent.Audit"), x.version)
			assert.Contains(t, c.do("GET", "/version").body, `"version":"`+x.version+`"`)
		})
	}
}

func containsKey(body, key string) bool { return strings.Contains(body, `"`+key+`":`) }
