package bastion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/crypto/ssh"

	remotessh "github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// User is the login user of the jump host.
const User = "lab"

// DialFunc connects to an address of the virtual network.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Bastion is the two servers. It runs until Close.
type Bastion struct {
	HostKey string // the jump host's public key, in the format of authorized_keys
	KeyFile string // User's private key

	jump, socks net.Listener
	cancel      context.CancelFunc
	running     sync.WaitGroup
}

// Listen starts both servers on loopback ports. The keys are stored in dir and reused at the
// next start.
func Listen(ctx context.Context, dir string, dial DialFunc) (*Bastion, error) {
	host, err := keyFile(filepath.Join(dir, "jump_host_key"))
	if err != nil {
		return nil, err
	}
	b := &Bastion{KeyFile: filepath.Join(dir, "jump_key"), HostKey: string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(host.PublicKey())))}
	user, err := keyFile(b.KeyFile)
	if err != nil {
		return nil, err
	}
	if b.jump, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listen as SSH jump host: %w", err)
	}
	if b.socks, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(fmt.Errorf("listen as SOCKS proxy: %w", err), b.jump.Close())
	}
	ctx, b.cancel = context.WithCancel(ctx)
	server := &sshserver.Server{HostKey: host, Authorize: only(user.PublicKey()), Forward: dial}
	b.running.Go(func() { _ = server.Serve(ctx, b.jump) })
	b.running.Go(func() { serveSOCKS(ctx, b.socks, dial) })
	return b, nil
}

// Jump is the jump host's address, host:port.
func (b *Bastion) Jump() string { return b.jump.Addr().String() }

// SOCKS is the proxy as a URL.
func (b *Bastion) SOCKS() string { return "socks5://" + b.socks.Addr().String() }

// Close ends both servers and all connections through them.
func (b *Bastion) Close() error {
	b.cancel()
	b.running.Wait()
	return nil
}

func only(want ssh.PublicKey) func(string, ssh.PublicKey) error {
	return func(user string, key ssh.PublicKey) error {
		if user != User || !bytes.Equal(key.Marshal(), want.Marshal()) {
			return fmt.Errorf("user %s may not log in with %s", user, ssh.FingerprintSHA256(key))
		}
		return nil
	}
}

// keyFile reads a private key, or generates it.
func keyFile(path string) (ssh.Signer, error) {
	signer, err := remotessh.LoadSigner(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return signer, err
	}
	private, _, err := remotessh.GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	if err := os.WriteFile(path, private, 0o600); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return remotessh.LoadSigner(path)
}
