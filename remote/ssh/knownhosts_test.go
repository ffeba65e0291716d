package ssh_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/facts"
)

// sharedConn is a known_hosts line of hosts as they are given.
func sharedConn(hosts string, key xssh.PublicKey) string {
	return hosts + " " + string(xssh.MarshalAuthorizedKey(key))
}

func publicKeys(t testing.TB, n int) []xssh.PublicKey {
	out := make([]xssh.PublicKey, n)
	for i := range out {
		signer, _ := newKey(t)
		out[i] = signer.PublicKey()
	}
	return out
}

func TestKnownHostsStoreAndLookup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "known_hosts")
	k := publicKeys(t, 3)
	known := ssh.NewKnownHosts(file)
	got, err := known.Lookup("10.0.0.11:22")
	require.NoError(t, err)
	assert.Empty(t, got, "a file that does not exist knows nobody")

	require.NoError(t, known.Store("10.0.0.11:22", k[0]))
	require.NoError(t, known.Store("10.0.0.11:2222", k[1]))
	require.NoError(t, known.Store("[fd00::1]:22", k[2]))
	for addr, want := range map[string]xssh.PublicKey{"10.0.0.11:22": k[0], "10.0.0.11:2222": k[1], "[fd00::1]:22": k[2]} {
		got, err := ssh.NewKnownHosts(file).HostKeys(t.Context(), addr)
		require.NoError(t, err)
		assert.Equal(t, []xssh.PublicKey{want}, got, addr)
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, sharedConn("10.0.0.11", k[0])+sharedConn("[10.0.0.11]:2222", k[1])+sharedConn("fd00::1", k[2]), string(b))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode().Perm())

	require.NoError(t, known.Store("10.0.0.11:22", k[1], k[2]))
	got, err = known.Lookup("10.0.0.11:22")
	require.NoError(t, err)
	assert.Equal(t, []xssh.PublicKey{k[1], k[2]}, got, "the new ones in place of the old")
	require.NoError(t, known.Store("10.0.0.11:22"))
	got, err = known.Lookup("10.0.0.11:22")
	require.NoError(t, err)
	assert.Empty(t, got, "forgotten")
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file stays")
}

func TestKnownHostsKeepsWhatIsNotOurs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	k := publicKeys(t, 4)
	salted := knownhosts.HashHostname("secret.example")
	before := "# a comment\n\n" + sharedConn("*.example,!bad.example", k[0]) + sharedConn("A.lan,10.0.0.5", k[1]) + sharedConn(salted, k[2]) +
		"rubbish\nhost ssh-ed25519 AAAA\n" + sharedConn("@revoked *", k[3]) + sharedConn("@cert-authority *", k[0]) +
		strings.TrimSuffix(sharedConn("10.0.0.6", k[3]), "\n")
	require.NoError(t, os.WriteFile(file, []byte(before), 0o600))
	known := ssh.NewKnownHosts(file)
	for addr, want := range map[string][]xssh.PublicKey{
		"x.example:22": {k[0]}, "bad.example:22": nil, "a.lan:22": {k[1]}, "10.0.0.5:22": {k[1]},
		"secret.example:22": {k[0], k[2]}, "10.0.0.6:22": nil, "10.0.0.5:23": nil, "host:22": nil,
	} {
		got, err := known.Lookup(addr)
		require.NoError(t, err)
		assert.ElementsMatch(t, want, got, addr)
	}

	require.NoError(t, known.Store("10.0.0.5:22", k[2]))
	require.NoError(t, known.Store("secret.example:22", k[3]))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	after := strings.Replace(before, "A.lan,10.0.0.5 ", "A.lan ", 1)
	after = strings.Replace(after, sharedConn(salted, k[2]), "", 1)
	assert.Equal(t, after+"\n"+sharedConn("10.0.0.5", k[2])+sharedConn("secret.example", k[3]), string(b))

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, known.Store("10.0.0.5:22", k[2]))
	again, err := os.Stat(file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(info, again), "a file that is right is not written")
}

func TestKnownHostsSideBySide(t *testing.T) {
	known := ssh.NewKnownHosts(filepath.Join(t.TempDir(), "known_hosts"))
	key := publicKeys(t, 1)[0]
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			assert.NoError(t, known.Store(net.JoinHostPort(net.IPv4(10, 0, 0, byte(i)).String(), "22"), key))
		})
	}
	all.Wait()
	for i := range 30 {
		got, err := known.Lookup(net.IPv4(10, 0, 0, byte(i)).String() + ":22")
		require.NoError(t, err)
		assert.Len(t, got, 1)
	}
}

// TestKnownHostsIsOpenSSHs: ssh(1) trusts a file of ours, and we one of its.
func TestKnownHostsIsOpenSSHs(t *testing.T) {
	client1 := facts.Program(t, "ssh", "openssh-client")
	m := inProcess(t)
	dir := t.TempDir()
	ours := filepath.Join(dir, "known_hosts")
	require.NoError(t, ssh.NewKnownHosts(ours).Store(m.addr, m.HostKey.PublicKey()))
	signer, private := newKey(t)
	m.key = signer
	id := filepath.Join(dir, "id")
	require.NoError(t, os.WriteFile(id, private, 0o600))
	host, port, err := net.SplitHostPort(m.addr)
	require.NoError(t, err)
	login := func(file string, options ...string) {
		args := append(options, "-F", "none", "-i", id, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
			"-o", "GlobalKnownHostsFile=none", "-o", "UserKnownHostsFile="+file, "-p", port, m.user+"@"+host, "echo hello")
		out, err := exec.CommandContext(t.Context(), client1, args...).CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Contains(t, string(out), "hello\n")
	}
	login(ours, "-o", "StrictHostKeyChecking=yes")

	theirs := filepath.Join(dir, "hashed")
	login(theirs, "-o", "StrictHostKeyChecking=no", "-o", "HashKnownHosts=yes")
	got, err := ssh.NewKnownHosts(theirs).Lookup(m.addr)
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, m.HostKey.PublicKey().Marshal(), got[0].Marshal())
}

// A read-only command keeps new keys in memory: they count in this process, and are written
// with the first write.
func TestKnownHostsHoldBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	path := filepath.Join(dir, "known_hosts")
	known, k := ssh.NewKnownHosts(path), publicKeys(t, 2)
	known.DeferWrites()
	assert.False(t, known.Unsaved())
	require.NoError(t, known.Store("10.0.0.11:22", k[0]))
	require.NoError(t, known.Store("10.0.0.12:22", k[0]))
	require.NoError(t, known.Store("10.0.0.12:22"))
	for addr, want := range map[string]int{"10.0.0.11:22": 1, "10.0.0.12:22": 0} {
		keys, err := known.Lookup(addr)
		require.NoError(t, err)
		assert.Len(t, keys, want, addr)
	}
	assert.True(t, known.Unsaved())
	assert.NoDirExists(t, dir)

	require.NoError(t, known.Flush())
	assert.False(t, known.Unsaved())
	keys, err := ssh.NewKnownHosts(path).Lookup("10.0.0.11:22")
	require.NoError(t, err)
	assert.Len(t, keys, 1)
	require.NoError(t, known.Store("10.0.0.13:22", k[1]), "from now on all is written")
	keys, err = ssh.NewKnownHosts(path).Lookup("10.0.0.13:22")
	require.NoError(t, err)
	assert.Len(t, keys, 1)

	known.DeferWrites()
	require.NoError(t, known.Store("10.0.0.11:22"))
	known.Discard()
	keys, err = known.Lookup("10.0.0.11:22")
	require.NoError(t, err)
	assert.Len(t, keys, 1)
	require.NoError(t, known.Flush())
}

func TestSeedSigner(t *testing.T) {
	one, err := ssh.SeedSigner(make([]byte, 32))
	require.NoError(t, err)
	// The public key of the seed of zeroes, as every ed25519 has it.
	assert.Equal(t, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop", ssh.AuthorizedKey(one.PublicKey()))
	_, err = ssh.SeedSigner(make([]byte, 31))
	assert.Error(t, err)
}
