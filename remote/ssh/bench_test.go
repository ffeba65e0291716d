package ssh_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// BenchmarkRun is what SSH itself costs a command, over loopback.
func BenchmarkRun(b *testing.B) {
	m := inProcess(b)
	m.Exec = func(context.Context, string, string, io.Reader, io.Writer, io.Writer) int { return 0 }
	c := client(b, m.config())
	for b.Loop() {
		require.NoError(b, remote.Run(b.Context(), c, "true"))
	}
}

// BenchmarkRunSideBySide is the same with all sessions in use.
func BenchmarkRunSideBySide(b *testing.B) {
	m := inProcess(b)
	m.Exec = func(context.Context, string, string, io.Reader, io.Writer, io.Writer) int { return 0 }
	c := client(b, m.config())
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			require.NoError(b, remote.Run(b.Context(), c, "true"))
		}
	})
}

// BenchmarkWriteFile includes the real script's processes.
func BenchmarkWriteFile(b *testing.B) {
	m := inProcess(b)
	c := client(b, m.config())
	file := b.TempDir() + "/file"
	content := make([]byte, 4<<10)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		require.NoError(b, remote.WriteFile(b.Context(), c, file, content, 0o600))
	}
}

// BenchmarkDial is a handshake with a key exchange that resists quantum computers.
func BenchmarkDial(b *testing.B) {
	m := inProcess(b)
	for b.Loop() {
		c, err := ssh.Dial(b.Context(), m.config())
		require.NoError(b, err)
		require.NoError(b, c.Close())
	}
}
