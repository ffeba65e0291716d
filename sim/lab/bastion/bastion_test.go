package bastion_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/net/proxy"

	"github.com/cps-gpu/homelab/sim/lab/bastion"
)

// echo is a network with one machine that says who it is and repeats a line.
func echo(_ context.Context, network, address string) (net.Conn, error) {
	if address != "10.0.0.11:22" {
		return nil, fmt.Errorf("dial %s %s: no route to host", network, address)
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		line, _ := bufio.NewReader(far).ReadString('\n')
		_, _ = io.WriteString(far, "10.0.0.11 heard "+line)
	}()
	return near, nil
}

func listen(t *testing.T, dir string) *bastion.Bastion {
	t.Helper()
	b, err := bastion.Listen(t.Context(), dir, echo)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

func ask(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.11 heard hello\n", answer)
}

func jump(t *testing.T, b *bastion.Bastion, user string) (*ssh.Client, error) {
	t.Helper()
	data, err := os.ReadFile(b.KeyFile)
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey(data)
	require.NoError(t, err)
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(b.HostKey))
	require.NoError(t, err)
	return ssh.Dial("tcp", b.Jump(), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(host), Timeout: 5 * time.Second,
	})
}

func TestJump(t *testing.T) {
	b := listen(t, t.TempDir())
	client, err := jump(t, b, bastion.User)
	require.NoError(t, err)
	defer client.Close()
	conn, err := client.Dial("tcp", "10.0.0.11:22")
	require.NoError(t, err)
	ask(t, conn)
	_, err = client.Dial("tcp", "127.0.0.1:22")
	require.ErrorContains(t, err, "no route to host")

	_, err = jump(t, b, "root")
	assert.ErrorContains(t, err, "unable to authenticate")
}

func TestSOCKS(t *testing.T) {
	b := listen(t, t.TempDir())
	u, err := url.Parse(b.SOCKS())
	require.NoError(t, err)
	dialer, err := proxy.FromURL(u, proxy.Direct)
	require.NoError(t, err)
	conn, err := dialer.Dial("tcp", "10.0.0.11:22")
	require.NoError(t, err)
	ask(t, conn)
	for _, refused := range []string{"10.0.0.12:22", "localhost:22", "example.com:443"} {
		_, err = dialer.Dial("tcp", refused)
		require.Error(t, err, refused)
	}
}

func TestKeysStay(t *testing.T) {
	dir := t.TempDir()
	a, b := listen(t, dir), listen(t, dir)
	assert.Equal(t, a.HostKey, b.HostKey)
	info, err := os.Stat(a.KeyFile)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestCloseEndsConnections(t *testing.T) {
	b, err := bastion.Listen(t.Context(), t.TempDir(), echo)
	require.NoError(t, err)
	client, err := jump(t, b, bastion.User)
	require.NoError(t, err)
	u, err := url.Parse(b.SOCKS())
	require.NoError(t, err)
	dialer, err := proxy.FromURL(u, proxy.Direct)
	require.NoError(t, err)
	open, err := dialer.Dial("tcp", "10.0.0.11:22")
	require.NoError(t, err)
	require.NoError(t, b.Close()) // returns at all
	_, _ = io.ReadAll(open)       // returns at all
	assert.Error(t, client.Wait())
}
