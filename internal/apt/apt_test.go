package apt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// TestTheListsAreSomebodyElsesForAWhile: Ubuntu's own timer reads them after a boot,
// and apt-get does not wait for that by itself.
func TestTheListsAreSomebodyElsesForAWhile(t *testing.T) {
	const taken = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)\nE: Unable to lock directory /var/lib/apt/lists/\n"
	after := func(t *testing.T, failures int, stderr string) error {
		n := 0
		r := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			if n++; n <= failures {
				return &remote.ExitError{Args: cmd.Args, Code: 100, Stderr: stderr}
			}
			return nil
		})
		_, err := ReadLists(t.Context(), r)
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := after(t, 3, taken)
		require.NoError(t, err)
		assert.Equal(t, 3*listsPoll, time.Since(begun))
		err = after(t, 1000, taken)
		require.ErrorContains(t, err, "Could not get lock", "not forever")
		begun = time.Now()
		err = after(t, 1, "E: The repository is not signed.\n")
		require.ErrorContains(t, err, "not signed")
		assert.Zero(t, time.Since(begun), "no other failure fixes itself")
	})
}

// Who waits no longer is told what for, and what apt-get said.
func TestWaitingForTheListsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := ReadLists(ctx, remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			return &remote.ExitError{Args: cmd.Args, Code: 100, Stderr: "E: Could not get lock /x"}
		}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "waiting for another apt-get")
		require.ErrorContains(t, err, "Could not get lock /x")
	})
}
