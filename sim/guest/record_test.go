package guest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

func TestJournalOfAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		s := m.core.System()
		time.Sleep(time.Hour)
		s.Log("a.service", "first")
		time.Sleep(90 * time.Second)
		s.Log("b.service", "second")
		time.Sleep(time.Second)
		began := time.Now()
		s.Log("a.service", "third")
		tests := map[string]string{
			"-u a": "first third",
			fmt.Sprintf("-u a --since=@%d", began.Unix()):        "third",
			"-u a --since '" + began.Format(time.DateTime) + "'": "third",
			"-u a -S -1m": "third",
			"-u a --since '2 min ago' --until '1m ago'":                      "first",
			"-u b -u a -S -1m":                                               "second third",
			"-u a --since now --until '" + began.Format(time.DateOnly) + "'": "-- No entries --",
			"-u a -r -n 1":               "third",
			"-S yesterday -U today -u a": "-- No entries --",
			"--since=-1m":                "second third",
			"-k -n 1 --until '" + began.Add(-time.Minute).Format("2006-01-02 15:04") + "' | wc -l": "1",
		}
		for args, want := range tests {
			out := mustShell(t, m, strings.Replace("journalctl -o cat "+args, "2 min ago", "2m ago", 1))
			assert.Equal(t, want, strings.Join(strings.Fields(out), " "), args)
		}
		assert.Equal(t, "Jan 01 01:0", mustShell(t, m, "journalctl -u a -n 1")[:11])
		code, out := shellAs(m, "root", "journalctl --since soon")
		assert.Equal(t, 1, code)
		assert.Equal(t, "Failed to parse timestamp: soon\n", out)
	})
}

// TestALeanGuestStaysSmall looks at many commands on many guests, as in a
// simulation that runs for days.
func TestALeanGuestStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const guests, limit = 10, 100 << 10
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		script := "# " + strings.Repeat("long ", 4000) + "\n: >/root/"
		base, shared := image.New("noble"), config(t, testUser)
		before := heap()
		var all []*Machine
		for range guests {
			c := shared // the disc in its drive is a volume, and no part of a guest
			c.Lean, c.Disk, c.Network = true, base.Clone(), &network.Network{}
			all = append(all, start(t, c))
		}
		for _, m := range all {
			for i := range 150 {
				mustShell(t, m, script+fmt.Sprint(i%20))
			}
			assert.LessOrEqual(t, len(m.Commands()), 100)
			last := m.Commands()[len(m.Commands())-1]
			require.LessOrEqual(t, len(strings.Join(last, "")), 256)
		}
		each := (heap() - before) / guests
		t.Logf("%d KiB for a guest", each>>10)
		assert.Less(t, each, int64(limit))
	})
}
