package pvesim

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Which tags somebody may set who has no Sys.Modify on / is the datacenter's to say.
func TestTagsOfTheDatacenter(t *testing.T) {
	const config, refused = "/nodes/pve1/qemu/104/config", "403 Permission check failed (/, Sys.Modify for modifying tag 'mine')"
	for _, x := range []struct{ key, value, tag, want string }{
		{"user-tag-access", "user-allow=free", "mine", "200 OK"},
		{"user-tag-access", "user-allow-list=prod", "mine", "200 OK"},
		{"user-tag-access", "user-allow=existing", "mine", refused},
		{"user-tag-access", "user-allow=existing", "storage", "200 OK"},
		{"user-tag-access", "user-allow=list,user-allow-list=mine", "mine", "200 OK"},
		{"user-tag-access", "user-allow=list,user-allow-list=prod", "mine", refused},
		{"user-tag-access", "user-allow=none", "mine", refused},
		{"registered-tags", "mine", "mine", refused},
		{"registered-tags", "prod", "mine", "200 OK"},
	} {
		in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
			s.SetOption(x.key, x.value)
			r := c.do("PUT", config, "tags", x.tag)
			assert.Equal(t, x.want, strconv.Itoa(r.status)+" "+r.reason, "%s %s", x.key, x.value)
			if x.want != "200 OK" {
				s.SetOption(x.key, "")
				require.Equal(t, 200, c.do("PUT", config, "tags", x.tag).status)
				s.SetOption(x.key, x.value)
				require.Equal(t, 200, c.do("PUT", config, "tags", x.tag, "cores", "2").status, "what is there may stay")
				if x.value != "user-allow=existing" { // by which it is one of those now
					assert.Equal(t, x.want, func() string {
						r := c.do("PUT", config, "delete", "tags")
						return strconv.Itoa(r.status) + " " + r.reason
					}())
				}
			}
		})
	}
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.SetOption("user-tag-access", "user-allow=list,user-allow-list=mine")
		assert.Contains(t, c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "tags", "mine")), "Sys.Modify for modifying tag 'HASH(0x", "no list is long enough for that")
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300")))
	})
}
