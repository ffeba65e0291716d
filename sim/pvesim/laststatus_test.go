package pvesim

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listed is a VM in /cluster/resources; nil when it is not there.
func (c *caller) listed(vmid int) map[string]any {
	var all struct{ Data []map[string]any }
	require.NoError(c.t, json.Unmarshal([]byte(c.do("GET", "/cluster/resources", "type", "vm").body), &all))
	for _, r := range all.Data {
		if r["vmid"] == float64(vmid) {
			return r
		}
	}
	return nil
}

// live is a VM in its node's own list.
func (c *caller) live(vmid string) map[string]any {
	return c.do("GET", "/nodes/pve1/qemu/"+vmid+"/status/current").object()
}

// pvestatdRound is how long a round of pvestatd takes.
const pvestatdRound = 10 * time.Second

// The times and answers are those of a real host's.
func TestListsAreARoundBehind(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "4370", "name", "first", "memory", "64", "tags", "a")))
		assert.Equal(t, map[string]any{"id": "qemu/4370", "node": "pve1", "tags": "a", "type": "qemu", "vmid": 4370., "status": "unknown"}, c.listed(4370))
		assert.Equal(t, "first", c.live("4370")["name"])

		time.Sleep(pvestatdRound)
		assert.Equal(t, []any{"first", "stopped", 64. * (1 << 20)}, []any{c.listed(4370)["name"], c.listed(4370)["status"], c.listed(4370)["maxmem"]})

		require.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/4370/config", "name", "second", "tags", "b").status)
		assert.Equal(t, []any{"first", "b"}, []any{c.listed(4370)["name"], c.listed(4370)["tags"]}, "the old name with the new tags")
		assert.Equal(t, "second", c.live("4370")["name"])
		time.Sleep(pvestatdRound)
		assert.Equal(t, "second", c.listed(4370)["name"])

		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/4370/status/start")))
		assert.Equal(t, []any{"stopped", "running"}, []any{c.listed(4370)["status"], c.live("4370")["status"]})
		time.Sleep(pvestatdRound)
		assert.Equal(t, "running", c.listed(4370)["status"])
		uptime := c.listed(4370)["uptime"]
		next := s.state.Hosts["pve1"].Tells
		time.Sleep(time.Until(next) - time.Millisecond)
		assert.Equal(t, uptime, c.listed(4370)["uptime"], "frozen between two rounds")

		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/4370/status/stop")))
		time.Sleep(pvestatdRound)
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/4370/template")))
		assert.Equal(t, []any{0., 1.}, []any{c.listed(4370)["template"], c.live("4370")["template"]})
		time.Sleep(pvestatdRound)
		assert.Equal(t, 1., c.listed(4370)["template"])
	})
}

func TestAVMIDUsedAgainShowsWhoHadIt(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		again := func(name, tags string) {
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "4400", "name", name, "memory", "64", "tags", tags)))
		}
		nextRound := func() { time.Sleep(time.Until(s.state.Hosts["pve1"].Tells)) }
		nextRound()
		again("second", "a")
		nextRound()
		require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/4400")))
		assert.Nil(t, c.listed(4400), "gone at once")
		time.Sleep(4 * time.Minute)
		nextRound()
		again("third", "b")
		assert.Equal(t, []any{"second", "b"}, []any{c.listed(4400)["name"], c.listed(4400)["tags"]}, "four minutes later")
		nextRound()
		assert.Equal(t, "third", c.listed(4400)["name"])

		require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/4400")))
		time.Sleep(6 * time.Minute)
		nextRound()
		again("fourth", "b")
		assert.Equal(t, []any{nil, "unknown"}, []any{c.listed(4400)["name"], c.listed(4400)["status"]}, "forgotten")

		// A round that meets a VM while it is being made sees an empty configuration.
		require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/4400")))
		time.Sleep(time.Until(s.state.Hosts["pve1"].Tells) - 40*time.Millisecond)
		again("fifth", "b")
		assert.Equal(t, []any{"VM 4400", 512. * (1 << 20)}, []any{c.listed(4400)["name"], c.listed(4400)["maxmem"]})
		nextRound()
		assert.Equal(t, "fifth", c.listed(4400)["name"])
	})
}

func TestListsWithoutLag(t *testing.T) {
	in(t, EightA100(), Options{StatusLag: -1}, func(t *testing.T, _ *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "4370", "name", "first")))
		assert.Equal(t, []any{"first", "stopped"}, []any{c.listed(4370)["name"], c.listed(4370)["status"]})
	})
}
