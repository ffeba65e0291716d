package kubesim_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManyNodesWithPods is about the work of the processors, which other programs of the machine do not add to:
// it was 1 s, and 12 s of the clock beside a compiler.
func TestManyNodesWithPods(t *testing.T) {
	began := onCPU()
	bubble(t, func(t *testing.T, a api) {
		require.NoError(t, a.c.Apply(t.Context(), []byte(pluginManifest)))
		for i := range 100 {
			join(t, a.c, fmt.Sprintf("wk%03d", i), 4)
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		_, out := a.get("/apis/apps/v1/namespaces/kube-system/daemonsets/plugin")
		assert.EqualValues(t, 100, withVersion(out, "status", "numberReady"))
	})
	took := onCPU() - began
	t.Logf("100 nodes with a DaemonSet in %s", took)
	assert.Less(t, took, 10*time.Second)
}

// onCPU is what this process has used of its processors.
func onCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
