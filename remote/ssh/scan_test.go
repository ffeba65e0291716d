package ssh_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

func TestHostKeyIsWhatTheServerShows(t *testing.T) {
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := xssh.ParsePrivateKey(private)
	require.NoError(t, err)
	server := &sshserver.Server{HostKey: signer} // lets nobody in
	cfg := ssh.Config{Addr: "10.0.0.5:22", Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go server.ServeConn(t.Context(), far)
		return near, nil
	}}
	key, err := ssh.HostKey(t.Context(), cfg)
	require.NoError(t, err)
	want, err := ssh.ParseAuthorizedKey(public)
	require.NoError(t, err)
	assert.Equal(t, ssh.AuthorizedKey(want), ssh.AuthorizedKey(key))
	assert.Equal(t, xssh.FingerprintSHA256(want), ssh.Fingerprint(key))
}

func TestHostKeyOfNobody(t *testing.T) {
	_, err := ssh.HostKey(t.Context(), ssh.Config{Addr: "10.0.0.5:22", Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no route to host")
	}})
	var unreachable *ssh.UnreachableError
	require.ErrorAs(t, err, &unreachable)
	assert.ErrorContains(t, err, "10.0.0.5:22")

	ctx, cancel := context.WithCancel(t.Context())
	_, err = ssh.HostKey(ctx, ssh.Config{Addr: "10.0.0.5:22", Dial: func(context.Context, string, string) (net.Conn, error) {
		near, _ := net.Pipe() // nobody at the other end
		cancel()
		return near, nil
	}})
	assert.ErrorIs(t, err, context.Canceled)
}
