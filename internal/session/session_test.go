package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// talking runs do in an empty folder, and returns what it said on standard error.
func talking(t *testing.T, do func()) string {
	t.Helper()
	t.Chdir(t.TempDir())
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = f
	defer func() { os.Stderr = stderr }()
	do()
	require.NoError(t, f.Close())
	b, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	return string(b)
}

func TestLoadWithoutAFileTakesTheExample(t *testing.T) {
	said := talking(t, func() {
		s, err := Load(Options{})
		require.NoError(t, err)
		assert.Equal(t, "eight-a100", s.Spec.Name)
		require.NoError(t, Validate(s, t.Context()))
	})
	assert.Contains(t, said, "No cluster.yaml here: using the example eight-a100")
	assert.Contains(t, said, "eight-a100 is valid: 3 servers, 4 agents, 8 GPUs.\n")
}

func TestLoadTakesTheFileThatIsThere(t *testing.T) {
	said := talking(t, func() {
		require.NoError(t, os.WriteFile(DefaultSpec, []byte("name: mine\nproxmox: {endpoint: lab, hots: x}\n"), 0o644))
		_, err := Load(Options{})
		assert.Equal(t, invalid, code(err))
		assert.ErrorContains(t, err, "cluster.yaml:2:")
		assert.ErrorContains(t, err, "hots")

		_, err = Load(Options{Spec: "other.yaml"})
		assert.Equal(t, invalid, code(err))
		assert.ErrorIs(t, err, fs.ErrNotExist)
		assert.ErrorContains(t, err, "other.yaml")
	})
	assert.Empty(t, said, "the caller prints the error")
}

// Where there is a token, its secret is all that there is to keep: nothing is written. A
// key that was generated without one is used beside what it gives.
func TestLoginByToken(t *testing.T) {
	talking(t, func() {
		s, err := Load(Options{})
		require.NoError(t, err)
		b := cluster.Backend{Dir: filepath.Join(t.TempDir(), "none")}
		require.NoError(t, s.login(&b, secret.New("5b9ac1d2-2d4f-4f07-9f3e-0d6b6c9f7a11")))
		assert.Empty(t, b.Signers)
		require.NotNil(t, b.TokenKey)
		assert.NoDirExists(t, b.Dir)
		require.NoError(t, (&Session{}).login(&cluster.Backend{}, secret.New("x")), "cluster:init has no file yet")

		require.NoError(t, makeKey(filepath.Join(b.Dir, keyFile)))
		require.NoError(t, s.login(&b, secret.New("5b9ac1d2-2d4f-4f07-9f3e-0d6b6c9f7a11")))
		assert.Len(t, b.Signers, 1)
		assert.NotNil(t, b.TokenKey)

		require.NoError(t, os.WriteFile(filepath.Join(b.Dir, keyFile), nil, 0o600))
		err = s.login(&b, secret.New("5b9ac1d2-2d4f-4f07-9f3e-0d6b6c9f7a11"))
		assert.ErrorContains(t, err, "is empty, perhaps because a disk was full: restore the key from a copy, or remove the file")
	})
}

// Machines that somebody else made have no token: a key is made once, by what may write.
func TestLoginWithoutAToken(t *testing.T) {
	talking(t, func() {
		s, err := Load(Options{})
		require.NoError(t, err)
		b := cluster.Backend{Dir: filepath.Join(t.TempDir(), "none")}
		assert.ErrorContains(t, s.login(&b, secret.Value{}), "there is no key to log in to the machines with: name yours (ssh.privateKey")
		assert.NoDirExists(t, b.Dir)

		s.opt.MakeKey = true
		require.NoError(t, s.login(&b, secret.Value{}))
		require.Len(t, b.Signers, 1)
		assert.Nil(t, b.TokenKey)
		path := filepath.Join(b.Dir, keyFile)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
		first, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, s.login(&b, secret.Value{}))
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, first, again, "a key that is there is used")
		public, err := os.ReadFile(path + ".pub")
		require.NoError(t, err)
		key, err := ssh.ParseAuthorizedKey(string(public))
		require.NoError(t, err)
		assert.Equal(t, key.Marshal(), b.Signers[0].PublicKey().Marshal())

		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "away"), path))
		assert.ErrorContains(t, s.login(&b, secret.Value{}), "it is a symbolic link to ")
	})
}

func TestLoginWithKeysOfOnesOwn(t *testing.T) {
	talking(t, func() {
		s, err := Load(Options{})
		require.NoError(t, err)
		b := cluster.Backend{Dir: t.TempDir()}
		token := secret.New("5b9ac1d2-2d4f-4f07-9f3e-0d6b6c9f7a11")
		s.Spec.Access.Agent = true
		t.Setenv("SSH_AUTH_SOCK", "")
		assert.ErrorContains(t, s.login(&b, token), "ssh-add")
		t.Setenv("SSH_AUTH_SOCK", "/run/agent")
		require.NoError(t, s.login(&b, token))
		assert.Equal(t, "/run/agent", b.Agent)
		assert.Nil(t, b.TokenKey)

		s.Spec.Access.Agent, s.Spec.Access.PrivateKey = false, "/nowhere/key"
		assert.ErrorIs(t, s.login(&b, token), fs.ErrNotExist)
		assert.Nil(t, b.TokenKey)

		private, public, err := ssh.GenerateKey()
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "edge")
		s.Spec.Access.PrivateKey, s.Spec.Nodes = "", []spec.Node{{Name: "edge", KeyFile: path}, {Name: "wk1"}}
		err = s.login(&b, token)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "privateKey of edge: ")
		require.NoError(t, os.WriteFile(path, private, 0o600))
		require.NoError(t, s.login(&b, token))
		require.Len(t, b.MachineKeys, 1)
		assert.Contains(t, public, ssh.AuthorizedKey(b.MachineKeys["edge"].PublicKey()))

		s.Spec.Nodes[1].SudoPassword, err = spec.ParseSecretRef("env:WK1_SUDO")
		require.NoError(t, err)
		require.ErrorContains(t, s.login(&b, token), "sudoPassword of wk1: environment variable WK1_SUDO is not set")
		t.Setenv("WK1_SUDO", "right horse")
		require.NoError(t, s.login(&b, token))
		assert.Equal(t, "says [secret]", s.Redact.Redact("says right horse"))
	})
}

func TestWaysToAGuest(t *testing.T) {
	var b cluster.Backend
	require.NoError(t, openProxy(&b, "socks5://127.0.0.1:1080"))
	assert.Equal(t, "proxy 127.0.0.1:1080", b.Via)
	assert.NotNil(t, b.Dial)
	for _, bad := range []string{"gopher://x", "%zz", "socks5//x"} {
		err := openProxy(&b, bad)
		assert.Equal(t, invalid, code(err), bad)
		assert.ErrorContains(t, err, "proxy", bad)
	}
}

func TestErrorsCarryTheirExitCode(t *testing.T) {
	err := exitError(invalid, fs.ErrNotExist)
	assert.Equal(t, 3, code(err))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, fs.ErrNotExist.Error(), err.Error())
	assert.Equal(t, 2, code(exitErrorf(pending, "x %d", 1)))
	assert.Equal(t, 1, code(errors.New("x")))
	assert.Equal(t, 100*time.Millisecond, timeSince(time.Now().Add(-90*time.Millisecond)))
	assert.Equal(t, "-", dash(nil))
	assert.Equal(t, "a, b", dash([]string{"a", "b"}))
}

// TestWithoutAHome: a service may have none. Then there is no known_hosts, and only a jump
// host needs one.
func TestWithoutAHome(t *testing.T) {
	key := filepath.Join(t.TempDir(), "id_ed25519")
	require.NoError(t, makeKey(key))
	t.Setenv("HOME", "")
	spec := &spec.Spec{Name: "strangers"}
	spec.Access.PrivateKey = key
	s := &Session{Spec: spec}
	var b cluster.Backend
	require.NoError(t, s.openSite(t.Context(), &b))
	assert.Nil(t, b.KnownHosts)
	spec.Access.Jump = "teacher@bastion"
	err := s.openSite(t.Context(), &b)
	assert.Equal(t, invalid, code(err))
	assert.ErrorContains(t, err, "ssh.jump: the jump host's key is unknown here: set HOME")
}
