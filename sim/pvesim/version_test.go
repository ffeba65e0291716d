package pvesim

import (
	"regexp"
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

// What the repositories of pve-qemu and qemu-server say was there at the time of a release.
func TestMachinesOfARelease(t *testing.T) {
	for _, x := range []struct{ version, qemu, newest, oldest string }{
		{"8.0.3", "8.0.2-3", "pc-i440fx-8.0 pc-q35-8.0 pc-i440fx-7.2", "pc-i440fx-2.0"},
		{"8.1.3", "8.1.2-4", "pc-i440fx-8.1 pc-q35-8.1 pc-i440fx-8.0", "pc-i440fx-2.0"},
		{"8.3.0", "9.0.2-4", "pc-i440fx-9.0 pc-q35-9.0 pc-i440fx-8.2", "pc-i440fx-2.0"},
		{"8.4.1", "9.2.0-5", "pc-i440fx-9.2+pve1 pc-q35-9.2+pve1 pc-i440fx-9.2", "pc-q35-2.4"},
		{"9.0.3", "10.0.2-4", "pc-i440fx-10.0 pc-q35-10.0 pc-i440fx-9.2+pve1", "pc-q35-2.4"},
		{"9.1.1", "10.1.2-4", "pc-i440fx-10.1 pc-q35-10.1 pc-i440fx-10.0+pve1", "pc-q35-4.2"},
		{"9.2.11", "11.0.0-2", "pc-i440fx-11.0+pve2 pc-q35-11.0+pve2 pc-i440fx-11.0+pve1", "pc-q35-5.1"},
	} {
		m := OneGPU()
		m.Version = x.version
		in(t, m, Options{}, func(t *testing.T, s *Sim, _ *caller) {
			c := asRoot(t, s)
			var ids []string
			for _, id := range regexp.MustCompile(`"id":"([^"]+)"`).FindAllStringSubmatch(c.do("GET", "/nodes/pve1/capabilities/qemu/machines").body, -1) {
				ids = append(ids, id[1])
			}
			assert.Equal(t, x.newest, strings.Join(ids[:3], " "), x.version)
			assert.Equal(t, x.oldest, ids[len(ids)-1], x.version)
			assert.Contains(t, c.do("GET", "/nodes/pve1/apt/versions").body, `"Version":"`+x.qemu+`"`)
			assert.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "333")))
			qemu, _, _ := strings.Cut(x.qemu, "-")
			assert.Contains(t, c.do("GET", "/nodes/pve1/qemu/333/config").body, "creation-qemu="+qemu)
		})
	}
}
