package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
)

// A slow agent is one that does not run, and only that: not a failing one, nor one that the run stops asking.
func TestWithAgentTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		broken := errors.New("no such command")
		_, err := WithAgentTimeout(t.Context(), slow)
		assert.ErrorIs(t, err, proxmox.ErrAgentNotRunning)
		assert.ErrorContains(t, err, "no answer within 5s")
		_, err = WithAgentTimeout(t.Context(), func(context.Context) (int, error) { return 0, broken })
		assert.Equal(t, broken, err)
		late, err := WithAgentTimeout(t.Context(), func(context.Context) (int, error) { time.Sleep(agentTime); return 7, nil })
		assert.NoError(t, err)
		assert.Equal(t, 7, late)
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = WithAgentTimeout(stopped, slow)
		assert.Equal(t, context.Canceled, err)
	})
}

// The file's patience multiplies a limit, and who runs into it is told so.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for patience, hint := range map[int]string{0: "patience: 2 in", 1: "patience: 2 in", 3: "patience: 6 in"} {
			began := time.Now()
			err := Until(t.Context(), &spec.Spec{Patience: patience}, converge.WaitRule{What: "waiting", Limit: time.Hour, Hint: "look there"},
				func(context.Context) (string, error) { return "not yet", nil })
			assert.ErrorContains(t, err, "look there\n  "+hint)
			assert.InDelta(t, max(patience, 1), time.Since(began).Hours(), 0.1)
		}
	})
}

// A check before a graph returns what it found, or why it could not.
func TestRetry(t *testing.T) {
	broken := converge.Permanent(errors.New("no such host"))
	out, err := Retry(t.Context(), &spec.Spec{}, func(context.Context) (int, error) { return 7, nil })
	assert.NoError(t, err)
	assert.Equal(t, 7, out)
	_, err = Retry(t.Context(), &spec.Spec{}, func(context.Context) (int, error) { return 0, broken })
	assert.ErrorIs(t, err, broken)
}
