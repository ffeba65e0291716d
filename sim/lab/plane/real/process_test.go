package real

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAPortThatIsTaken runs a component that says what a real one says then.
func TestAPortThatIsTaken(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	script := filepath.Join(t.TempDir(), "component")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$1: listen tcp 127.0.0.1:1: bind: address already in use\" >&2\nexit 1\n"), 0o700))
	p, err := spawn(t.Context(), script, "etcd", log, nil)
	require.NoError(t, err)
	err = until(t.Context(), "etcd", func(context.Context) error { return errors.New("not there") }, p)
	var ended *exitError
	require.ErrorAs(t, err, &ended)
	assert.True(t, ended.portTaken())
	assert.ErrorContains(t, err, "etcd ended (exit status 1): etcd: listen tcp 127.0.0.1:1: bind: address already in use; its log is "+log)
}

func TestUntilSaysWhatItWaitedFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	err := until(ctx, "the API server", func(context.Context) error { return errors.New("connection refused") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "waiting for the API server (connection refused)")
}

func TestKillTakesTheWholeGroup(t *testing.T) {
	p, err := spawn(t.Context(), "/bin/sleep", "60", filepath.Join(t.TempDir(), "x.log"), nil)
	require.NoError(t, err)
	began := time.Now()
	p.kill()
	assert.Less(t, time.Since(began), 30*time.Second, "it would sleep for 60 s")
	assert.Error(t, p.ended())
}
