package charttest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube/chart"
)

// cutOff applies r and ends the work at its n-th request. It reports whether there
// were so many. Nothing may be written after Apply has returned.
func (u *user) cutOff(t *testing.T, r chart.Release, n int) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	u.reset()
	u.mu.Lock()
	u.cut, u.end = n, cancel
	u.mu.Unlock()
	err := u.Apply(ctx, r)
	reads, writes := u.reset()
	if reads+len(writes) < n {
		require.NoError(t, err, "request %d", n)
		return false
	}
	if err == nil {
		return true // it was the last one
	}
	require.ErrorIs(t, err, context.Canceled, "request %d", n)
	const settled = 100 * time.Millisecond
	time.Sleep(settled)
	reads, writes = u.reset()
	assert.Empty(t, writes, "request %d: written after Apply has returned", n)
	assert.Zero(t, reads, "request %d: read after Apply has returned", n)
	return true
}

// TestCutOff ends an install, and an upgrade, at every one of their requests; the
// next Apply brings the release about all the same.
func TestCutOff(t *testing.T) {
	u := newUser(t, form(t, 1))
	t.Run("install", func(t *testing.T) {
		cuts, mine := 0, share.Start(t, "installs cut off")
		for more := true; more; cuts++ {
			if !mine.Next() {
				continue
			}
			r := chart.Release{Name: fmt.Sprintf("i%d", cuts), Namespace: fmt.Sprintf("cut-%d", cuts), Chart: "tiny", Version: "1.0.0", Timeout: 20 * time.Second}
			more = u.cutOff(t, r, cuts+1)
			u.converges(t, r)
		}
		assert.Greater(t, cuts, 15)
	})
	t.Run("upgrade", func(t *testing.T) {
		cuts, rounds, mine := 0, 0, share.Start(t, "upgrades cut off")
		for more := true; more; cuts++ {
			if cuts > 0 && !mine.Next() {
				continue
			}
			version, gone := []string{"1.0.0", "1.1.0"}[rounds%2], []string{"u-1.1.0", "u-1.0.0"}[rounds%2]
			rounds++
			r := chart.Release{Name: "u", Namespace: "cut-up", Chart: "tiny", Version: version, Timeout: 20 * time.Second,
				Values: map[string]any{"text": fmt.Sprint("round ", cuts)}}
			if cuts == 0 {
				u.converges(t, r)
				continue
			}
			more = u.cutOff(t, r, cuts)
			u.converges(t, r)
			assert.Nil(t, u.get(t, "v1", "ConfigMap", r.Namespace, gone), "cut %d: what is obsolete is gone", cuts)
		}
		assert.Greater(t, cuts, 20)
	})
	t.Run("with Jobs and pods", func(t *testing.T) {
		mine := share.Start(t, "installs with Jobs and pods cut off")
		for _, n := range []int{20, 33, 45, 60} {
			if !mine.Next() {
				continue
			}
			r := web("1.0.0", nil)
			r.Namespace = fmt.Sprintf("cut-web-%d", n)
			u.cutOff(t, r, n)
			u.converges(t, r)
		}
	})
}

// converges checks that Apply brings a release about, and then has nothing to do.
func (u *user) converges(t *testing.T, r chart.Release) {
	t.Helper()
	u.see(t, r)
	require.NoError(t, u.Apply(t.Context(), r))
	u.reset()
	s := u.see(t, r)
	require.Empty(t, s.Diff().String(), "%s/%s", r.Namespace, r.Name)
	require.Equal(t, "deployed", s.Status)
	list, err := u.kube.List(t.Context(), "v1", "Secret", r.Namespace, "owner=helm,name="+r.Name+",status notin (deployed,superseded,failed)")
	require.NoError(t, err)
	assert.Empty(t, list, "nothing stays pending")
}
