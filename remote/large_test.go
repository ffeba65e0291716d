package remote_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// A command that writes without end is stopped and cannot fill the caller's memory, even if
// the Runner ignores that it cannot write.
func TestOutputHasABound(t *testing.T) {
	piece := bytes.Repeat([]byte("y\n"), 1<<19)
	for name, stubborn := range map[string]bool{"stops at the first error": false, "goes on": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			sent := 0
			out, err := remote.Output(ctx, remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
				for ; sent < 200 && ctx.Err() == nil; sent++ {
					if _, err := cmd.Stdout.Write(piece); err != nil && !stubborn {
						return err
					}
				}
				return ctx.Err()
			}), "cat", "/proc/kmsg")
			require.EqualError(t, err, "cat /proc/kmsg: its output: it has more than 16 MiB, and no more are read")
			assert.NotErrorIs(t, err, context.Canceled, "it was not the caller who ended it")
			assert.Len(t, out, 16<<20)
			assert.Equal(t, 17, sent+map[bool]int{false: 1, true: 0}[stubborn])
		})
	}
	real, err := remote.Output(t.Context(), remote.RunnerFunc(here), "head", "-c", "17000000", "/dev/zero")
	require.ErrorContains(t, err, "it has more than 16 MiB")
	assert.Len(t, real, 16<<20)
}
