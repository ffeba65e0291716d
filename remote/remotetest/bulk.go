package remotetest

import (
	"bufio"
	"bytes"
	"io"
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// Bulk tests a Runner that streams: megabytes in both directions at once, answers to partial
// input, deaths by signal. The machine needs a real process for each command, with kill.
func Bulk(t *testing.T, connect func(t *testing.T) remote.Runner) {
	t.Helper()
	t.Run("BothWays", func(t *testing.T) { bothWays(t, connect(t)) })
	t.Run("BigFile", func(t *testing.T) { bigFile(t, connect(t)) })
	t.Run("Conversation", func(t *testing.T) { conversation(t, connect(t)) })
	t.Run("Signal", func(t *testing.T) { deathBySignal(t, connect(t)) })
	t.Run("StdinNotRead", func(t *testing.T) { bulkNotRead(t, connect(t)) })
}

func bothWays(t *testing.T, r remote.Runner) {
	data := everyByte(8 << 20)
	var out bytes.Buffer
	require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader(data), Stdout: &out}))
	assert.True(t, bytes.Equal(data, out.Bytes()))
}

func bigFile(t *testing.T, r remote.Runner) {
	file := path.Join(folder(t, r), "big")
	data := everyByte(5<<20 + 1)
	require.NoError(t, remote.WriteFile(t.Context(), r, file, data, 0o644))
	got, err := remote.ReadFile(t.Context(), r, file)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got))
}

// conversation writes a line only after the previous one was answered.
func conversation(t *testing.T, r remote.Runner) {
	in, send := io.Pipe()
	receive, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- r.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: in, Stdout: out})
		_ = out.Close()
	}()
	answers := bufio.NewReader(receive)
	for _, line := range []string{"one\n", "two\n", "three\n"} {
		_, err := io.WriteString(send, line)
		require.NoError(t, err)
		answer, err := answers.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, line, answer)
	}
	require.NoError(t, send.Close())
	require.NoError(t, <-ended)
}

func deathBySignal(t *testing.T, r remote.Runner) {
	var exit *remote.ExitError
	require.ErrorAs(t, remote.Run(t.Context(), r, "sh", "-c", "kill -KILL $$"), &exit)
	assert.Equal(t, 137, exit.Code)
	if exit.Signal != "" { // a login shell in between may have made an exit status of it
		assert.Equal(t, "KILL", exit.Signal)
	}
}

// bulkNotRead sends far more input than all buffers can hold to a program that reads none of
// it.
func bulkNotRead(t *testing.T, r remote.Runner) {
	endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: []string{"true"}, Stdin: endless}))
}
