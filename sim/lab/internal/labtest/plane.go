package labtest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/lab/plane"
	"github.com/cps-gpu/homelab/sim/lab/plane/real"
	"github.com/cps-gpu/homelab/sim/lab/plane/simulated"
)

// OnEither runs a test with real control planes, or with simulated ones: a run has one kind, the next share the other.
func OnEither(t *testing.T, test func(t *testing.T, kind labctl.Guests)) {
	t.Helper()
	mine := share.OneOf(t, 2, "control planes")
	if mine.Next() {
		t.Run("simulated", func(t *testing.T) { test(t, labctl.Guests{}) })
	}
	if mine.Next() {
		t.Run("real", func(t *testing.T) { test(t, Real()) })
	}
}

// Planes are options for clusters with real control planes, or with simulated ones. A test that
// fails shows the ends of the logs of real ones.
func Planes(t *testing.T, kind labctl.Guests) plane.Options {
	t.Helper()
	dir, log := t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil))
	if !kind.Kubernetes {
		return plane.Options{Log: log, Start: simulated.Starter(labctl.KubernetesVersion)}
	}
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
