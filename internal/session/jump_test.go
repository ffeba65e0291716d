package session

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// jumpHost serves a jump host which takes one key, and returns its place and host key. It answers by its name.
func jumpHost(t *testing.T, name string, takes ssh.Signer) (place string, host ssh.PublicKey) {
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, private, 0o600))
	key, err := ssh.LoadSigner(path)
	require.NoError(t, err)
	server := &sshserver.Server{
		HostKey: key,
		Authorize: func(user string, shown ssh.PublicKey) error {
			if user != "me" || !bytes.Equal(shown.Marshal(), takes.PublicKey().Marshal()) {
				return errors.New("not you")
			}
			return nil
		},
		Forward: func(_ context.Context, _, addr string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Write([]byte(name + " to " + addr + "\n"))
				_ = there.Close()
			}()
			return here, nil
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	return "me@" + l.Addr().String(), key.PublicKey()
}

// A machine with a jump host of its own is reached through that, with its own key or the cluster's, and a VIP of
// such servers too; the others are reached as the file says. Its host key must be known.
func TestJumpHostsOfMachines(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	require.NoError(t, makeKey(filepath.Join(dir, "all")))
	require.NoError(t, makeKey(filepath.Join(dir, "own")))
	all, err := ssh.LoadSigner(filepath.Join(dir, "all"))
	require.NoError(t, err)
	own, err := ssh.LoadSigner(filepath.Join(dir, "own"))
	require.NoError(t, err)
	general, generalKey := jumpHost(t, "general", all)
	first, firstKey := jumpHost(t, "first", own)
	second, secondKey := jumpHost(t, "second", all)
	want, err := cluster.Parse(filepath.Join(dir, "cluster.yaml"), []byte("name: closet\nk3s: {vip: 10.9.0.2}\nssh: {privateKey: all, jump: '"+general+"'}\nnodes:\n"+
		"  a: {role: server, external: ops@10.9.0.40, privateKey: own, jump: '"+first+"'}\n"+
		"  b: {external: ops@10.9.0.41, jump: '"+second+"'}\n  c: {external: ops@10.9.0.42, jump: '"+second+"'}\n  d: {external: ops@10.9.0.43}\n"))
	require.NoError(t, err)
	s := &Session{Spec: want}
	t.Cleanup(s.Close)
	var b cluster.Backend
	require.NoError(t, s.openSite(t.Context(), &b))
	assert.Len(t, s.jumps, 3, "b and c share a connection")
	assert.Equal(t, "jump host "+general, b.Via)

	_, err = b.Dial(t.Context(), "tcp", "10.9.0.40:22")
	var unknown *ssh.HostKeyError
	require.ErrorAs(t, err, &unknown)
	for place, key := range map[string]ssh.PublicKey{general: generalKey, first: firstKey, second: secondKey} {
		require.NoError(t, b.KnownHosts.Store(place[len("me@"):], key))
	}
	for addr, through := range map[string]string{
		"10.9.0.40:22": "first", "10.9.0.2:6443": "first", "10.9.0.41:22": "second", "10.9.0.42:22": "second", "10.9.0.43:22": "general", "registry:443": "general",
	} {
		conn, err := b.Dial(t.Context(), "tcp", addr)
		require.NoError(t, err, addr)
		got := make([]byte, 200)
		n, _ := conn.Read(got)
		assert.Equal(t, through+" to "+addr+"\n", string(got[:n]))
		require.NoError(t, conn.Close())
	}

	direct := &Session{Spec: &spec.Spec{Nodes: []spec.Node{want.Nodes[0]}}}
	t.Cleanup(direct.Close)
	b = cluster.Backend{KnownHosts: b.KnownHosts, Signers: []ssh.Signer{all}}
	require.NoError(t, direct.openJumps(&b))
	_, err = b.Dial(t.Context(), "tcp", "10.9.0.40:22")
	require.ErrorContains(t, err, "add this line to its authorized_keys", "without the machine's own key")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	conn, err := b.Dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err, "other machines have no jump host")
	require.NoError(t, conn.Close())

	b.KnownHosts = nil
	require.ErrorContains(t, direct.openJumps(&b), "jump of a: the jump host's key is unknown here: set HOME")
}
