package cluster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A file of this machine that cannot be read or written, such as on a full disk, is no
// guest that is not there yet: waiting mends nothing.
func TestALocalFileThatCannotBeWrittenIsNotWaitedFor(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		inTheWay := filepath.Join(w.dir, "known_hosts")
		begun, listen := time.Time{}, w.listen(t)
		_, err := w.cluster(t, parse(t, oneDisk)).Up().Run(t.Context(), func(e converge.Event) {
			if e.Step == "guest/cp1" && begun.IsZero() { // the VM runs, and has not been met
				begun = time.Now()
				assert.NoError(t, os.RemoveAll(inTheWay))
				assert.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
			}
			listen(e)
		})
		require.ErrorContains(t, err, inTheWay)
		assert.Less(t, time.Since(begun), 3*time.Minute)
		require.NoError(t, os.RemoveAll(inTheWay))
		w.up(t, parse(t, oneDisk))
	})
}
