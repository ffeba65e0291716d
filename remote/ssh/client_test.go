package ssh_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/remotetest"
	"github.com/cps-gpu/homelab/remote/ssh"
)

func TestContractInProcess(t *testing.T) {
	m := inProcess(t)
	connect := func(t *testing.T) remote.Runner { return client(t, m.config()) }
	remotetest.Contract(t, connect)
	remotetest.Bulk(t, connect)
}

func TestContractOpenSSH(t *testing.T) {
	m := debian(t)
	connect := func(t *testing.T) remote.Runner { return client(t, m.config()) }
	remotetest.Contract(t, connect)
	remotetest.Bulk(t, connect)
}

// TestContractTwoJumps goes through two hosts that only forward.
func TestContractTwoJumps(t *testing.T) {
	inner, bastion, m := inProcess(t), inProcess(t), inProcess(t)
	for _, jump := range []*machine{inner, bastion} {
		jump.Forward, jump.Exec = new(net.Dialer).DialContext, nil
	}
	connect := func(t *testing.T) remote.Runner {
		first := client(t, bastion.config())
		cfg := inner.config()
		cfg.Dial, cfg.Via = first.Dial, "bastion"
		second := client(t, cfg)
		cfg = m.config()
		cfg.Dial, cfg.Via = second.Dial, "inner"
		return client(t, cfg)
	}
	remotetest.Contract(t, connect)
	remotetest.Bulk(t, connect)
}

func TestContractOpenSSHJump(t *testing.T) {
	jump, m := debian(t), debian(t)
	connect := func(t *testing.T) remote.Runner {
		cfg := m.config()
		cfg.Dial = client(t, jump.config()).Dial
		return client(t, cfg)
	}
	remotetest.Contract(t, connect)
}

// TestFewSessions: a hardened server takes fewer sessions than we expect.
func TestFewSessions(t *testing.T) {
	few := inProcess(t)
	few.MaxSessions = 2
	for name, m := range map[string]*machine{"InProcess": few, "OpenSSH": debian(t, "MaxSessions 2")} {
		t.Run(name, func(t *testing.T) {
			c := client(t, m.config())
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() { assert.NoError(t, remote.Run(t.Context(), c, "sleep", "0.02")) })
			}
			all.Wait()
		})
	}
	none := debian(t, "MaxSessions 0")
	err := remote.Run(t.Context(), client(t, none.config()), "true")
	assert.ErrorContains(t, err, none.addr+" refuses to run commands (MaxSessions of its sshd_config")
}

func TestSecretsStayOnStdin(t *testing.T) {
	m := inProcess(t)
	const token = "K10f00f::server:hunter2"
	require.NoError(t, remote.WriteFile(t.Context(), client(t, m.config()), t.TempDir()+"/token", []byte(token), 0o600))
	require.Len(t, m.commands, 1)
	assert.NotContains(t, m.commands[0], "hunter2")
	assert.Contains(t, m.commands[0], "/token")
}

func TestWrongHostKey(t *testing.T) {
	m, other := inProcess(t), inProcess(t)
	cfg := m.config()
	cfg.HostKeys = other.config().HostKeys
	_, err := ssh.Dial(t.Context(), cfg)
	var wrong *ssh.HostKeyError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, m.addr, wrong.Addr)
	got, want := xssh.FingerprintSHA256(m.HostKey.PublicKey()), xssh.FingerprintSHA256(other.HostKey.PublicKey())
	assert.EqualError(t, err, "the host key of "+m.addr+" is "+got+" (ssh-ed25519), but pinned is "+want+" (ssh-ed25519): "+
		"the machine was recreated, another one has its address, or somebody intercepts the connection; "+
		"remove the pinned key only if you know that it is the first")
	assert.Empty(t, m.commands)
}

func TestNoHostKey(t *testing.T) {
	m := inProcess(t)
	cfg := m.config()
	cfg.HostKeys = ssh.Pin()
	_, err := ssh.Dial(t.Context(), cfg)
	var none *ssh.HostKeyError
	require.ErrorAs(t, err, &none)
	assert.ErrorContains(t, err, "no host key of "+m.addr+" is known, and an unknown key is not trusted")

	lookup := errors.New("guest agent is down")
	cfg.HostKeys = func(context.Context, string) ([]xssh.PublicKey, error) { return nil, lookup }
	_, err = ssh.Dial(t.Context(), cfg)
	assert.ErrorIs(t, err, lookup)
	cfg.HostKeys = nil
	_, err = ssh.Dial(t.Context(), cfg)
	assert.ErrorContains(t, err, "Config.HostKeys is not set")
}

func TestWrongUserKey(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *machine{
		"InProcess": func(t testing.TB, _ ...string) *machine { return inProcess(t) },
		"OpenSSH":   debian,
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t)
			cfg := m.config()
			stranger, _ := newKey(t)
			cfg.Signers = []xssh.Signer{stranger}
			_, err := ssh.Dial(t.Context(), cfg)
			var refused *ssh.AuthError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, m.user, refused.User)
			assert.ErrorContains(t, err, m.addr+" does not let "+m.user+" in with "+
				xssh.FingerprintSHA256(stranger.PublicKey())+" (ssh-ed25519): is the user right")

			cfg.Signers = nil
			for range 12 { // more than the six that a server puts up with
				stranger, _ := newKey(t)
				cfg.Signers = append(cfg.Signers, stranger)
			}
			_, err = ssh.Dial(t.Context(), cfg)
			require.ErrorAs(t, err, &refused)
			assert.Len(t, refused.Offered, 12)

			cfg.Signers = []xssh.Signer{stranger, m.key}
			c, err := ssh.Dial(t.Context(), cfg)
			require.NoError(t, err)
			require.NoError(t, c.Close())

			cfg.Signers = nil
			_, err = ssh.Dial(t.Context(), cfg)
			assert.EqualError(t, err, "no key to log in to "+m.addr+" as "+m.user+" with: give a private key or an SSH agent")
		})
	}
}

// TestBanner: what a server has to say to everybody, such as that it still boots, is
// part of the error when it lets nobody in.
func TestBanner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "banner")
	require.NoError(t, os.WriteFile(file, []byte("The system is\nbooting up.\n"), 0o644))
	m := debian(t, "Banner "+file)
	cfg := m.config()
	stranger, _ := newKey(t)
	cfg.Signers = []xssh.Signer{stranger}
	_, err := ssh.Dial(t.Context(), cfg)
	assert.ErrorContains(t, err, `(ssh-ed25519) and says "The system is booting up.": is the user right`)
}

// TestServerShowsThePinnedType: a server with several host keys shows the one that
// we know, and not the one that it or we would prefer.
func TestServerShowsThePinnedType(t *testing.T) {
	dir := t.TempDir()
	keygen(t, "-t", "rsa", "-b", "2048", "-N", "", "-f", dir+"/rsa")
	keygen(t, "-t", "ecdsa", "-N", "", "-f", dir+"/ecdsa")
	m := debian(t, "HostKey "+dir+"/rsa", "HostKey "+dir+"/ecdsa")
	for _, name := range []string{"rsa", "ecdsa"} {
		known, err := ssh.LoadSigner(dir + "/" + name)
		require.NoError(t, err)
		cfg := m.config()
		cfg.HostKeys = ssh.Pin(known.PublicKey())
		assert.NoError(t, remote.Run(t.Context(), client(t, cfg), "true"), name)
	}
	only := debian(t)
	known, err := ssh.LoadSigner(dir + "/ecdsa")
	require.NoError(t, err)
	cfg := only.config()
	cfg.HostKeys = ssh.Pin(known.PublicKey())
	_, err = ssh.Dial(t.Context(), cfg)
	var wrong *ssh.HostKeyError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, []string{"ssh-ed25519"}, wrong.Has)
	assert.ErrorContains(t, err, "has no host key of the pinned types")
}

// silent listens, accepts, and never says a word.
func silent(t *testing.T) string {
	return each(t, func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
}

func TestHandshakeNeverAnswered(t *testing.T) {
	m := newMachine(t)
	m.addr = silent(t)
	cfg := m.config()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := ssh.Dial(ctx, cfg)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "connecting to "+m.addr)

	cfg.Timeout = 50 * time.Millisecond
	_, err = ssh.Dial(t.Context(), cfg)
	var unreachable *ssh.UnreachableError
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "cannot reach "+m.addr+": no answer within 50ms")
}

// A dialer gives its socket the context's deadline, which may come a hair before the
// context's own.
func TestTheSocketsDeadlineComesFirst(t *testing.T) {
	cfg := newMachine(t).config()
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	_, err := ssh.Dial(t.Context(), cfg)
	var unreachable *ssh.UnreachableError
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "no answer within ")
}

func TestUnreachable(t *testing.T) {
	m, bastion := newMachine(t), inProcess(t)
	m.addr = "127.0.0.1:1"
	_, err := ssh.Dial(t.Context(), m.config())
	var unreachable *ssh.UnreachableError
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "cannot reach 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")

	cfg := m.config()
	cfg.Dial = client(t, bastion.config()).Dial
	_, err = ssh.Dial(t.Context(), cfg)
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "cannot reach 127.0.0.1:1 through "+bastion.addr+": it does not forward connections (AllowTcpForwarding")
	assert.True(t, converge.IsPermanent(err), "waiting does not change its configuration")
	assert.False(t, converge.IsTransient(err))

	bastion.Forward = new(net.Dialer).DialContext
	_, err = ssh.Dial(t.Context(), cfg)
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "cannot reach 127.0.0.1:1 through "+bastion.addr+": ")
	assert.ErrorContains(t, err, "connection refused")

	gone := newMachine(t)
	gone.addr = "127.0.0.1:1"
	cfg.Dial = client(t, gone.config()).Dial
	_, err = ssh.Dial(t.Context(), cfg)
	assert.EqualError(t, err, "cannot reach 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused", "said once, of the jump host")
}

func TestHangsUp(t *testing.T) {
	m := newMachine(t)
	m.addr = each(t, func(c net.Conn) { _ = c.Close() })
	_, err := ssh.Dial(t.Context(), m.config())
	var unreachable *ssh.UnreachableError
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "it accepts connections, but hangs up during the SSH handshake")
}

// TestWhatCannotBeReachedPasses, but a jump host that forwards nothing does not.
func TestWhatCannotBeReachedPasses(t *testing.T) {
	for cause, permanent := range map[error]bool{
		fmt.Errorf("dial: %w", &xssh.OpenChannelError{Reason: xssh.Prohibited, Message: "no"}):            true,
		&net.DNSError{Err: "no such host", Name: "gpu1.lan", IsNotFound: true}:                            false,
		&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}:                       false,
		fmt.Errorf("dial: %w", &xssh.OpenChannelError{Reason: xssh.ConnectionFailed, Message: "refused"}): false,
		fmt.Errorf("dial: %w", &xssh.OpenChannelError{Reason: xssh.ResourceShortage}):                     false,
	} {
		client := ssh.New(ssh.Config{
			Addr: "gpu1.lan:22", User: "ubuntu", Signers: []ssh.Signer{signer(t)}, HostKeys: ssh.Pin(signer(t).PublicKey()),
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, cause },
		})
		err := client.Run(t.Context(), remote.Cmd{Args: []string{"true"}})
		require.ErrorIs(t, err, cause)
		assert.Equal(t, permanent, converge.IsPermanent(err), "%v", err)
		assert.Equal(t, !permanent, converge.IsTransient(err), "%v", err)
	}
}

func signer(t *testing.T) ssh.Signer {
	key, _ := newKey(t)
	return key
}
