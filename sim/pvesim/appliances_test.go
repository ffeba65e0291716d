package pvesim

import (
	"crypto/sha512"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppliancesAreThoseOfTheHostsList(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		assert.JSONEq(t, "[]", string(c.do("GET", "/nodes/pve1/aplinfo").Data), "nothing where pveam was never run")
	})
	sum := sha512.Sum512([]byte("a template"))
	m := OneGPU()
	m.Hosts[0].OS.Files = map[string]string{
		"/var/lib/pve-manager/apl-info/download.proxmox.com": "Package: little\nVersion: 1.2-1\nType: lxc\nOS: little-1\nSection: system\nArchitecture: amd64\n" +
			"Location: system/little-1-default_1.2-1_amd64.tar.xz\nsha512sum: " + hex.EncodeToString(sum[:]) + "\nInfopage: https://example.com\n" +
			"Description: A little system\n With a longer\n text.\n\nPackage: broken\nType: lxc\n"}
	asked := ""
	internet := func(url string) ([]byte, error) { asked = url; return []byte("a template"), nil }
	in(t, m, Options{Internet: internet}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		const template = "little-1-default_1.2-1_amd64.tar.xz"
		assert.JSONEq(t, `[{"package":"little","version":"1.2-1","type":"lxc","os":"little-1","section":"system","architecture":"amd64",
			"location":"http://download.proxmox.com/images/system/`+template+`","sha512sum":"`+hex.EncodeToString(sum[:])+`","infopage":"https://example.com",
			"headline":"A little system","description":"With a longer text.","source":"http://download.proxmox.com/images","template":"`+template+`"}]`,
			string(c.do("GET", "/nodes/pve1/aplinfo").Data))
		c.walk([]step{
			{"POST", "/nodes/pve1/aplinfo", kv("storage", "local", "template", "none"), "400 Parameter verification failed."},
			{"POST", "/nodes/pve1/aplinfo", kv("storage", "vmdata", "template", template), "500 storage 'vmdata' does not support templates"},
			{"PUT", "/storage/local", kv("content", "iso,vztmpl,import"), ""},
		})
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/aplinfo", "storage", "local", "template", template)))
		assert.Equal(t, "http://download.proxmox.com/images/system/"+template, asked)
		assert.Contains(t, c.do("GET", "/nodes/pve1/storage/local/content").body, "local:vztmpl/"+template)
		assert.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/aplinfo", "storage", "local", "template", template)), "it is there")
	})
}
