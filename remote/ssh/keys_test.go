package ssh_test

import (
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"crypto/rand"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/facts"
)

// keygen runs OpenSSH's own ssh-keygen.
func keygen(t testing.TB, args ...string) []byte {
	path := facts.Program(t, "ssh-keygen", "openssh-client")
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return out
}

func TestGenerateKeyIsOpenSSHs(t *testing.T) {
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "id")
	require.NoError(t, os.WriteFile(path, private, 0o600))
	assert.Equal(t, public+"\n", string(keygen(t, "-y", "-f", path)))
	signer, err := ssh.LoadSigner(path)
	require.NoError(t, err)
	key, comment, _, _, err := xssh.ParseAuthorizedKey([]byte(public))
	require.NoError(t, err)
	assert.Equal(t, key.Marshal(), signer.PublicKey().Marshal())
	assert.Equal(t, "homelab", comment)

	parsed, err := ssh.ParseAuthorizedKey(public)
	require.NoError(t, err)
	assert.Equal(t, public, ssh.AuthorizedKey(parsed)+" homelab")
	_, err = ssh.ParseAuthorizedKey("ssh-ed25519 rubbish")
	assert.ErrorContains(t, err, `ssh public key "ssh-ed25519 rubbish": `)
}

func TestLoadSignerSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "id")
	_, err := ssh.LoadSigner(path)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	keygen(t, "-t", "ed25519", "-N", "secret phrase", "-f", path)
	_, err = ssh.LoadSigner(path)
	assert.ErrorContains(t, err, "is protected by a passphrase: load it into an SSH agent with ssh-add "+path)
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = ssh.LoadSigner(path)
	assert.ErrorContains(t, err, "mode 0644): run chmod 600 "+path)
	require.NoError(t, os.Chmod(path+".pub", 0o600))
	_, err = ssh.LoadSigner(path + ".pub")
	assert.ErrorContains(t, err, "is a public key: give the file without .pub")
	require.NoError(t, os.WriteFile(path+".txt", []byte(" \n"), 0o600))
	_, err = ssh.LoadSigner(path + ".txt")
	assert.ErrorContains(t, err, "is empty, perhaps because a disk was full")
	require.NoError(t, os.WriteFile(path+".txt", []byte("rubbish"), 0o600))
	_, err = ssh.LoadSigner(path + ".txt")
	assert.ErrorContains(t, err, "private key "+path+".txt: ")
}

// startAgent serves a real agent with keys on a socket.
func startAgent(t *testing.T, keys ...any) string {
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	ring := agent.NewKeyring()
	for _, k := range keys {
		require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: k}))
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	return socket
}

func TestAgent(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, key := range map[string]any{"ed25519": &ed, "rsa": rsaKey} {
		t.Run(name, func(t *testing.T) {
			m := debian(t)
			authorized, err := xssh.NewSignerFromKey(key)
			require.NoError(t, err)
			in := inProcess(t)
			in.key = authorized
			for _, m := range []*machine{m, in} {
				cfg := m.config()
				cfg.Signers, cfg.Agent = nil, startAgent(t, key)
				err = remote.Run(t.Context(), client(t, cfg), "true")
				if m == in {
					assert.NoError(t, err)
					continue
				}
				var refused *ssh.AuthError
				require.ErrorAs(t, err, &refused, "OpenSSH does not know the key")
				assert.Equal(t, []string{xssh.FingerprintSHA256(authorized.PublicKey()) + " (" + authorized.PublicKey().Type() + ")"}, refused.Offered)
			}
		})
	}
}

func TestAgentSaysWhatIsWrong(t *testing.T) {
	_, err := ssh.AgentSigners(t.Context(), "")
	assert.ErrorContains(t, err, "SSH_AUTH_SOCK is not set")
	_, err = ssh.AgentSigners(t.Context(), filepath.Join(t.TempDir(), "none"))
	assert.True(t, errors.Is(err, fs.ErrNotExist), err)
	socket := startAgent(t)
	_, err = ssh.AgentSigners(t.Context(), socket)
	assert.EqualError(t, err, "SSH agent "+socket+" has no keys: add one with ssh-add")
}
