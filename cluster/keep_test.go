package cluster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestWhatCannotBeKeptIsSaidFirst: where the kubeconfig may not be written at the end,
// nothing is made before that is said.
func TestWhatCannotBeKeptIsSaidFirst(t *testing.T) {
	for name, spoil := range map[string]struct {
		do   func(t *testing.T, w *world)
		says string
	}{
		"all may write there": {func(t *testing.T, w *world) { require.NoError(t, os.Chmod(w.dir, 0o777)) }, "run chmod go-w "}, //nolint:gosec // that is it
		"a link is there": {func(t *testing.T, w *world) {
			require.NoError(t, os.Symlink("elsewhere", filepath.Join(w.dir, "kubeconfig")))
		}, "it is a symbolic link to elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spoil.do(t, w)
				spec := parse(t, lab(example(t, "one-gpu")))
				c := w.cluster(t, spec)
				defer c.Close()
				_, err := c.Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, spoil.says)
				assert.Empty(t, w.mutations(), "nothing is made")
			})
		})
	}
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		time.Sleep(time.Minute)
		require.NoError(t, os.Chmod(w.dir, 0o777)) //nolint:gosec // that is it
		before := w.now()
		require.ErrorContains(t, w.verb(t, spec, replacements(t.Context(), "gpu1", true)), "run chmod go-w ")
		assert.Equal(t, changes{}, before.changes())
		w.up(t, spec) // which has nothing to do
	})
}
