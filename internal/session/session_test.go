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
	"github.com/cps-gpu/homelab/remote/ssh"
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
		require.NoError(t, s.Validate())
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
	assert.Empty(t, said, "what is wrong is said by whoever gets the error")
}

func TestLogin(t *testing.T) {
	talking(t, func() {
		s, err := Load(Options{})
		require.NoError(t, err)
		b := cluster.Backend{Dir: t.TempDir()}
		require.NoError(t, s.login(&b))
		require.Len(t, b.Signers, 1)
		path := filepath.Join(b.Dir, "id_ed25519")
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
		first, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, s.login(&b))
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, first, again, "a key that is there is used")
		public, err := os.ReadFile(path + ".pub")
		require.NoError(t, err)
		key, err := ssh.ParseAuthorizedKey(string(public))
		require.NoError(t, err)
		assert.Equal(t, key.Marshal(), b.Signers[0].PublicKey().Marshal())

		s.Spec.Access.Agent = true
		t.Setenv("SSH_AUTH_SOCK", "")
		assert.ErrorContains(t, s.login(&b), "ssh-add")
		t.Setenv("SSH_AUTH_SOCK", "/run/agent")
		require.NoError(t, s.login(&b))
		assert.Equal(t, "/run/agent", b.Agent)

		s.Spec.Access.Agent, s.Spec.Access.PrivateKey = false, "/nowhere/key"
		assert.ErrorIs(t, s.login(&b), fs.ErrNotExist)
	})
}

func TestWaysToAGuest(t *testing.T) {
	s := &Session{}
	var b cluster.Backend
	assert.Equal(t, invalid, code(s.openJump(&b, "bastion:2222")))
	require.NoError(t, s.openJump(&b, "me@bastion"))
	assert.Equal(t, "jump host bastion:22", b.Via)
	require.NoError(t, s.openJump(&b, "me@bastion:2222"))
	assert.Equal(t, "jump host bastion:2222", b.Via)
	assert.NotNil(t, b.Dial)
	s.Close()

	b = cluster.Backend{}
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
	err := failed(invalid, fs.ErrNotExist)
	assert.Equal(t, 3, code(err))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, fs.ErrNotExist.Error(), err.Error())
	assert.Equal(t, 2, code(failedf(pending, "x %d", 1)))
	assert.Equal(t, 1, code(errors.New("x")))
	assert.Equal(t, 100*time.Millisecond, since(time.Now().Add(-90*time.Millisecond)))
	assert.Equal(t, "-", dash(nil))
	assert.Equal(t, "a, b", dash([]string{"a", "b"}))
}
