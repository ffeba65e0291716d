//go:build unix

// Its commands run on this machine, as on a server: with flock and a shell.

package leasefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
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
	store := func() *File {
		return &File{Root: remote.RunnerFunc(here), Machine: "here", Path: filepath.Join(dir, "home.lease")}
	}
	_, err := store().Read(t.Context())
	require.ErrorIs(t, err, converge.ErrNoLease)
	_, err = (&File{Root: remote.RunnerFunc(here), Path: dir}).Read(t.Context())
	require.Error(t, err, "a folder")
	require.ErrorIs(t, store().Replace(t.Context(), converge.LeaseRecord{}, "x"), converge.ErrLeaseStale)

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
	require.ErrorIs(t, store().Create(t.Context(), "x"), converge.ErrLeaseExists)

	won = many(func(i int) error { return store().Replace(t.Context(), seen, text(100+i)) })
	again, err := store().Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, text(100+won)+"\n", again.Text)
	require.ErrorIs(t, store().Remove(t.Context(), seen), converge.ErrLeaseStale, "it is another's by now")
	require.NoError(t, store().Remove(t.Context(), again))
	require.NoError(t, store().Remove(t.Context(), again), "gone is gone")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Equal(t, "home.lease on here", strings.TrimPrefix(store().String(), dir+"/"))
}

// TestLeaseFileThatIsBusy: somebody else changes a lease for longer than one waits for its
// turn, as on a server whose disk hangs; the error is a transient one, not an exit code.
func TestLeaseFileThatIsBusy(t *testing.T) {
	dir := t.TempDir()
	ended := func(ctx context.Context, cmd remote.Cmd) error {
		cmd.Args = slices.Clone(cmd.Args)
		cmd.Args[slices.Index(cmd.Args, "-w")+1] = "0.1"
		return here(ctx, cmd)
	}
	store := &File{Root: remote.RunnerFunc(ended), Machine: "here", Path: filepath.Join(dir, "home.lease")}
	folder, err := os.Open(dir) //nolint:gosec // a test's own
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(folder.Fd()), syscall.LOCK_EX)) //nolint:gosec // small
	for _, err := range []error{store.Create(t.Context(), "x"), store.Remove(t.Context(), converge.LeaseRecord{})} {
		require.ErrorContains(t, err, "home.lease on here: another run has been changing it for 10 seconds")
		assert.True(t, converge.IsTransient(err))
	}
	require.NoError(t, folder.Close())
	require.NoError(t, store.Create(t.Context(), "x"))
	store.Path = filepath.Join(dir, "nowhere", "home.lease")
	err = store.Create(t.Context(), "x")
	require.Error(t, err)
	assert.False(t, converge.IsTransient(err), "%s", err)
}

// TestLeaseFileOutlivesAPowerCut: what is in the new file is on the disk before it has the
// lease's name, so nobody finds an empty one.
func TestLeaseFileOutlivesAPowerCut(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	log := filepath.Join(bin, "log")
	script := fmt.Sprintf("#!/bin/sh\nfor f; do cat -- \"$f\" >>%s; [ ! -e %s/home.lease ] || echo late >>%[1]s; done\n", log, dir)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "sync"), []byte(script), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	store := &File{Root: remote.RunnerFunc(here), Machine: "here", Path: filepath.Join(dir, "home.lease")}
	require.NoError(t, store.Create(t.Context(), "beat: 1"))
	text, err := os.ReadFile(log) //nolint:gosec // a test's own
	require.NoError(t, err)
	assert.Equal(t, "beat: 1\n", string(text))
}
