package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// newKey makes a key pair, and returns the private half also as a file's content.
func newKey(t testing.TB) (xssh.Signer, []byte) {
	t.Helper()
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := xssh.ParsePrivateKey(private)
	require.NoError(t, err)
	return signer, private
}

// machine is an SSH server that runs commands on this machine, and what it takes to
// log in to it.
type machine struct {
	sshserver.Server
	addr string
	user string
	key  xssh.Signer

	mu       sync.Mutex
	commands []string // what was run
}

// path is the PATH of commands on the machines of these tests.
func path(t testing.TB) string {
	bin, err := filepath.Abs("testdata/bin")
	require.NoError(t, err)
	return bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// newMachine makes a machine that listens nowhere yet.
func newMachine(t testing.TB) *machine {
	t.Setenv("PATH", path(t))
	m := &machine{user: "ubuntu"}
	m.HostKey, _ = newKey(t)
	m.key, _ = newKey(t)
	m.Authorize = func(user string, key xssh.PublicKey) error {
		if user != m.user || !bytes.Equal(key.Marshal(), m.key.PublicKey().Marshal()) {
			return errors.New("not authorized")
		}
		return nil
	}
	m.Exec = func(ctx context.Context, user, command string, stdin io.Reader, stdout, stderr io.Writer) int {
		m.mu.Lock()
		m.commands = append(m.commands, command)
		m.mu.Unlock()
		return sshserver.LocalExec(ctx, user, command, stdin, stdout, stderr)
	}
	return m
}

// inProcess starts a machine on a loopback port.
func inProcess(t testing.TB) *machine {
	m := newMachine(t)
	m.listen(t)
	return m
}

func (m *machine) listen(t testing.TB) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.addr = l.Addr().String()
	serve(t, l, m.Serve)
}

// serve runs a server until the test ends, and then waits for it.
func serve(t testing.TB, l net.Listener, server func(context.Context, net.Listener) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// each lets f have every connection to an address, which it returns.
func each(t testing.TB, f func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serve(t, l, func(ctx context.Context, l net.Listener) error {
		defer context.AfterFunc(ctx, func() { _ = l.Close() })()
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			f(c)
		}
	})
	return l.Addr().String()
}

func (m *machine) config() ssh.Config {
	return ssh.Config{
		Addr: m.addr, User: m.user,
		Signers:  []xssh.Signer{m.key},
		HostKeys: ssh.Pin(m.HostKey.PublicKey()),
	}
}

// client makes a client that is closed when the test ends.
func client(t testing.TB, cfg ssh.Config) *ssh.Client {
	c := ssh.New(cfg)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// debian starts this machine's own sshd on a loopback port, as the user who runs
// the test. Where there is none the test is skipped, but in CI it fails.
func debian(t testing.TB, options ...string) *machine {
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must test against OpenSSH: apt-get install openssh-server: %v", err)
		}
		t.Skip("SKIPPED: there is no OpenSSH server here: apt-get install openssh-server")
	}
	me, err := user.Current()
	require.NoError(t, err)
	if os.Getuid() == 0 {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // as its unit does
	}
	m := &machine{user: me.Username}
	var private []byte
	m.HostKey, private = newKey(t)
	m.key, _ = newKey(t)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		return file
	}
	config := append([]string{
		"HostKey " + write("host_key", private),
		"AuthorizedKeysFile " + write("authorized_keys", xssh.MarshalAuthorizedKey(m.key.PublicKey())),
		"StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes", "PidFile none",
		"SetEnv PATH=" + path(t) + " HOME=" + dir, // without anyone's .bashrc, which bash reads for sshd
	}, options...)
	file := write("sshd_config", []byte(strings.Join(config, "\n")+"\n"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.addr = l.Addr().String()
	serve(t, l, func(ctx context.Context, l net.Listener) error {
		return superserver(ctx, l, sshd, "-i", "-e", "-f", file)
	})
	return m
}

// superserver runs a program for each connection, as inetd did. Unlike a daemon on a
// port of its own it is ready at once and can lose no race for the port.
func superserver(ctx context.Context, l net.Listener, args ...string) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		file, err := c.(*net.TCPConn).File()
		if err != nil {
			return err
		}
		_ = c.Close() // the file is a duplicate
		running.Go(func() {
			var log bytes.Buffer
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &log
			if err := cmd.Run(); err != nil && ctx.Err() == nil && os.Getenv("SSHD_LOG") != "" {
				fmt.Fprintln(os.Stderr, err, log.String())
			}
			_ = file.Close()
		})
	}
}
