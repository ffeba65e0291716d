package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge/lease"
	"github.com/cps-gpu/homelab/remote"
)

// here runs commands on this machine.
func here(ctx context.Context, cmd remote.Cmd) error {
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...) //nolint:gosec // that is what it is for
	var tail remote.Tail
	c.Stdin, c.Stdout, c.Stderr = cmd.Stdin, cmd.Stdout, &tail
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &remote.ExitError{Args: cmd.Args, Code: exit.ExitCode(), Stderr: tail.String()}
	}
	return err
}

// TestLeaseFile: of many writers one gets through, with the shell and the flock(1) of a
// real system, and nothing is left.
func TestLeaseFile(t *testing.T) {
	dir := t.TempDir()
	store := func() *leaseFile {
		return &leaseFile{root: remote.RunnerFunc(here), machine: "here", path: filepath.Join(dir, "home.lease")}
	}
	_, err := store().Read(t.Context())
	require.ErrorIs(t, err, lease.ErrNone)
	require.ErrorIs(t, store().Replace(t.Context(), lease.Seen{}, "x"), lease.ErrStale)

	many := func(do func(i int) error) (won int) {
		var all sync.WaitGroup
		var sum atomic.Int32
		for i := range 8 {
			all.Go(func() {
				if do(i) == nil {
					sum.Store(int32(i)) //nolint:gosec // small
					sum.Add(1000)
				}
			})
		}
		all.Wait()
		require.Less(t, sum.Load(), int32(2000), "two got through")
		require.GreaterOrEqual(t, sum.Load(), int32(1000), "nobody got through")
		return int(sum.Load()) - 1000
	}
	text := func(i int) string {
		return fmt.Sprintf("holder: run %d's $(touch %s) \"x\"\nbeat: 1", i, filepath.Join(dir, "bad"))
	}
	won := many(func(i int) error { return store().Create(t.Context(), text(i)) })
	seen, err := store().Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, text(won)+"\n", seen.Text)
	require.ErrorIs(t, store().Create(t.Context(), "x"), lease.ErrThere)

	won = many(func(i int) error { return store().Replace(t.Context(), seen, text(100+i)) })
	again, err := store().Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, text(100+won)+"\n", again.Text)
	require.NoError(t, store().Remove(t.Context()))
	require.NoError(t, store().Remove(t.Context()), "gone is gone")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Equal(t, "home.lease on here", strings.TrimPrefix(store().String(), dir+"/"))
}
