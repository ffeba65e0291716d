package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/share"
)

// TestLifeAfterLife takes clusters up and down in one lab. Each has a control plane
// of its own, and a lab that has seen three takes no more memory than one that has
// seen one.
func TestLifeAfterLife(t *testing.T) {
	t.Parallel()
	if mine := share.OneOf(t, 2, "lives of labs"); !mine.Next() {
		return
	}
	u := newUser(t)
	u.fastLab(t)
	kubeconfigs := map[string]bool{}
	var memory []int64
	for life := range 3 {
		if life == 0 {
			u.twoAtOnce(t)
		}
		u.must(t, "cluster:up")
		kubeconfig, err := os.ReadFile(filepath.Join(u.dir, ".homelab", "eight-a100", "kubeconfig"))
		require.NoError(t, err)
		kubeconfigs[string(kubeconfig)] = true
		u.must(t, "cluster:down", "-yes")
		memory = append(memory, u.idle(t))
	}
	assert.Len(t, kubeconfigs, 3, "every control plane has an authority of its own")
	t.Logf("MiB of the lab itself after each life: %d", memory)
	assert.Less(t, memory[2]-memory[0], int64(64), "MiB that three lives left behind")
}

// idle waits until the lab has one control plane in reserve, as at its start, and
// returns how many MiB the lab itself takes.
func (u *user) idle(t *testing.T) int64 {
	t.Helper()
	const programs = 5 // the lab, etcd, API server, controller-manager, scheduler
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(200 * time.Millisecond) {
		status, err := labctl.Stat(t.Context(), u.lab())
		require.NoError(t, err)
		if len(status.Processes) == programs {
			return status.Processes[0].Memory >> 20
		}
	}
	require.Fail(t, "the lab does not come to rest")
	return 0
}

// twoAtOnce has two people make the same cluster at the same time, and then one make it
// while the other removes it.
func (u *user) twoAtOnce(t *testing.T) {
	t.Helper()
	other := u.elsewhere(t)
	together := func(mine, theirs []string) string {
		a, _, said := u.command(t.Context(), mine...)
		b, _, alsoSaid := other.command(t.Context(), theirs...)
		require.NoError(t, a.Start())
		require.NoError(t, b.Start())
		assert.NoError(t, a.Wait(), "%s", said)
		assert.NoError(t, b.Wait(), "%s", alsoSaid)
		return said.String() + alsoSaid.String()
	}
	assert.Contains(t, together([]string{"cluster:up"}, []string{"cluster:up"}), "; waiting until that is over.")
	u.isWhole(t)
	together([]string{"cluster:down", "-yes"}, []string{"cluster:up"})
	u.must(t, "cluster:up")
	u.isWhole(t)
	u.must(t, "cluster:down", "-yes")
}
