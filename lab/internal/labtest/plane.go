package labtest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cps-gpu/homelab/lab/plane"
	"github.com/cps-gpu/homelab/lab/plane/real"
)

// Planes are options for clusters with real control planes. A test that fails shows the ends of
// their logs.
func Planes(t *testing.T) plane.Options {
	t.Helper()
	dir, log := t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil))
	logs := filepath.Join(dir, "log")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, name := range []string{real.Etcd, real.APIServer, real.ControllerManager, real.Scheduler} {
			data, _ := os.ReadFile(filepath.Join(logs, name+".log"))
			t.Logf("%s: %s", name, data[max(0, len(data)-3000):])
		}
	})
	return plane.Options{Log: log, Start: real.Starter(real.Options{Dir: filepath.Join(dir, "plane"), Logs: logs, Exe: Binary(t, Real()), Log: log})}
}
