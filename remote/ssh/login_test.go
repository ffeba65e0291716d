package ssh_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote/ssh"
)

// TestLoginSaysWhatIsMissing: each thing that ssh(1) takes from a home folder, one after the other.
func TestLoginSaysWhatIsMissing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "")
	fails := func(to, want string) {
		t.Helper()
		_, err := ssh.Login(t.Context(), to)
		require.ErrorContains(t, err, want)
	}
	for _, to := range []string{"", "teacher", "@10.0.0.1", "teacher@"} {
		fails(to, "write user@host or user@host:port")
	}
	fails("teacher@127.0.0.1:1", "no key: make one with ssh-keygen")

	folder := filepath.Join(home, ".ssh")
	require.NoError(t, os.Mkdir(folder, 0o700))
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "id_ed25519"), private, 0o644))
	fails("teacher@127.0.0.1:1", "may be read by others")
	require.NoError(t, os.Chmod(filepath.Join(folder, "id_ed25519"), 0o600))
	_, err = ssh.Login(t.Context(), "teacher@127.0.0.1:1")
	require.ErrorAs(t, err, new(*ssh.UnreachableError))
	assert.ErrorContains(t, err, "127.0.0.1:1")
	fails("teacher@127.0.0.1", "127.0.0.1:22")
	t.Setenv("HOME", "")
	fails("teacher@127.0.0.1:1", "login teacher@127.0.0.1:1: where keys and known_hosts are: ")
	t.Setenv("HOME", home)

	require.NoError(t, os.Remove(filepath.Join(folder, "id_ed25519")))
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(home, "no-agent"))
	fails("teacher@127.0.0.1:1", "no-agent")
}
