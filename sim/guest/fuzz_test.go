package guest

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// FuzzShell holds the interpreter's frame to not panicking, whatever the script.
func FuzzShell(f *testing.F) {
	for _, s := range []string{"echo $((1+", "cat <<E\n$(ls)\nE", "exec 4>&1", "a | b |& c", "[ ( -a", "cd ''; . ''", "trap", "sed s/a", "awk '{print $9}' /etc/passwd", "test ! !", "find -name",
		"chmod +q f", "cut -f-", "tr a", "head -c", "xargs -n", "systemctl start", "flags --", "stat -c", "cp a", "k3s token", "mount -a", "sudo", "env -u", "timeout x", "apt-get install =1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if strings.Contains(script, "while") || strings.Contains(script, "for") || strings.Contains(script, "until") || strings.Contains(script, "()") {
			t.Skip("endless loops end with the caller's context only")
		}
		m := New(machine.Config{Disk: image.New("noble"), Speed: 1e6})
		s := machine.NewSystem(t.Context(), m.core)
		s.Begin(archive.ImageKernel, time.Now())
		defer s.Halt()
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var out bytes.Buffer
		code := s.Login(ctx, "root", script, strings.NewReader("in\n"), &out, &out)
		assert.GreaterOrEqual(t, code, 0)
	})
}

func FuzzUserData(f *testing.F) {
	f.Add(fullUser, testNetwork)
	f.Add("#cloud-config\nusers: {a: b}\nmounts: [[]]\nruncmd: {}\nwrite_files: [1]\npackages: {x: 1}\n", "version: 2\nethernets: []\n")
	f.Fuzz(func(t *testing.T, user, network string) {
		user = strings.ReplaceAll(user, "cmd", "cmx") // scripts are FuzzShell's
		synctest.Test(t, func(t *testing.T) {
			cfg := config(t, "")
			cfg.Seed = seedISO(t, user+"\n", "instance-id: i\n", network)
			m := New(cfg)
			require.NoError(t, m.Boot(t.Context()))
			time.Sleep(time.Minute)
			m.Kill()
		})
	})
}

// TestSmall holds an idle guest to what a lab of a thousand can afford.
func TestSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const guests = 50
		base := image.New("noble")
		memory := func() uint64 {
			var s runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&s)
			return s.HeapAlloc
		}
		var machines []*Machine
		before := memory()
		for range guests {
			cfg := config(t, testUser)
			cfg.Disk = base.Clone()
			m := New(cfg)
			require.NoError(t, m.Boot(t.Context()))
			machines = append(machines, m)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		each := (int64(memory()) - int64(before)) / guests
		t.Logf("%d bytes each", each)
		assert.Less(t, each, int64(150<<10), "its seed among it")
		for _, m := range machines {
			m.Kill()
		}
	})
}
