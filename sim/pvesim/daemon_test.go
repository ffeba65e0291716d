package pvesim

import (
	"encoding/json"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// silent puts VMs 501 … there that run and whose agents never answer.
func silent(s *Sim, n int) {
	for i := range n {
		s.AddVM(VM{ID: 501 + i, Node: "pve1", Name: "silent" + strconv.Itoa(i), Running: true,
			Config: map[string]string{"agent": "1", "memory": "512"}})
	}
}

// took says how long a call takes, and what it says.
func (c *caller) took(path string) (time.Duration, string) {
	began := time.Now()
	r := c.do("GET", path)
	return time.Since(began), strconv.Itoa(r.status) + " " + r.reason
}

// Seen on the real daemons: three agent calls to guests whose agents do not answer
// keep everybody waiting whose call goes through pvedaemon, and nobody else.
func TestThreeWorkersServeEverybody(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		silent(s, 4)
		idle, _ := c.took("/nodes/pve1/qemu")
		var asking sync.WaitGroup
		for i := range 3 {
			asking.Go(func() { c.do("GET", "/nodes/pve1/qemu/"+strconv.Itoa(501+i)+"/agent/info") })
		}
		time.Sleep(time.Millisecond)
		memory, _ := c.took("/cluster/resources")
		config, _ := c.took("/nodes/pve1/qemu/501/config")
		assert.Zero(t, memory, "pveproxy answers from memory")
		assert.Zero(t, config, "and reads configurations itself")
		busy, line := c.took("/nodes/pve1/qemu")
		assert.Equal(t, "200 OK", line)
		assert.Greater(t, busy, 2900*time.Millisecond, "idle it takes %s", idle)
		asking.Wait()
		again, _ := c.took("/nodes/pve1/qemu")
		assert.Equal(t, idle, again, "and then it is over")
	})
}

// About thirty such calls at once are more than pveproxy waits for.
func TestAQueueLongerThanPveproxyWaits(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		silent(s, 36)
		var asking sync.WaitGroup
		lines := make([]string, 36)
		for i := range lines {
			asking.Go(func() { _, lines[i] = c.took("/nodes/pve1/qemu/" + strconv.Itoa(501+i) + "/agent/info") })
		}
		time.Sleep(time.Millisecond)
		took, line := c.took("/nodes/pve1/qemu")
		assert.Equal(t, "596 Connection timed out", line)
		assert.Equal(t, world.ProxyTimeout, took)
		asking.Wait()
		assert.Contains(t, lines, "596 Connection timed out")
		assert.Contains(t, lines, "500 QEMU guest agent is not running")
		time.Sleep(10 * time.Second) // what was handed on is worked off all the same
		took, line = c.took("/nodes/pve1/qemu")
		assert.Equal(t, "200 OK", line)
		assert.Equal(t, s.state.Options.Timing.Call, took)
	})
}

// A refused token costs its caller three seconds and nobody else anything: pveproxy
// sets a timer (PVE/APIServer/AnyEvent.pm).
func TestAWrongTokenHoldsNobodyUp(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		stranger := &caller{t: t, s: s, auth: c.auth + "x"}
		var asking sync.WaitGroup
		for range 9 {
			asking.Go(func() { stranger.do("GET", "/nodes/pve1/qemu") })
		}
		time.Sleep(time.Millisecond)
		took, _ := c.took("/nodes/pve1/qemu")
		assert.Equal(t, s.state.Options.Timing.Call, took)
		asking.Wait()
	})
}

// TestProtectedIsProxmoxs holds protected.txt against the dump of the API's schema, where
// that is at hand; that Proxmox has these methods, always.
func TestProtectedIsProxmoxs(t *testing.T) {
	text := facts.Load(t, "internal/world/protected.txt", *update, func(full fs.FS) ([]byte, error) {
		raw, err := fs.ReadFile(full, fullSchema)
		if err != nil {
			return nil, err
		}
		return protected(t, raw), nil
	})
	schema, err := os.ReadFile("internal/schema/schema.json")
	require.NoError(t, err)
	var kept struct{ Methods map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(schema, &kept))
	for name := range strings.Lines(string(text)) {
		assert.Contains(t, kept.Methods, strings.TrimSpace(name))
	}
}

func protected(t *testing.T, raw []byte) []byte {
	t.Helper()
	var full struct {
		Paths map[string]map[string]struct{ Protected json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(raw, &full))
	var want []string
	for path, methods := range full.Paths {
		for verb, m := range methods {
			if text := string(m.Protected); text == "1" {
				want = append(want, path+" "+verb)
			}
		}
	}
	slices.Sort(want)
	for i, line := range want {
		path, verb, _ := strings.Cut(line, " ")
		want[i] = verb + " " + path
	}
	return []byte(strings.Join(want, "\n") + "\n")
}
