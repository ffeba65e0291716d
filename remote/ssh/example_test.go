package ssh_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/sshserver"
)

// fleet stands for a bastion and a node behind it, for the examples: a network in
// which every address is a machine that repeats commands and forwards anything.
func fleet(ctx context.Context, hostKey xssh.Signer) func(context.Context, string, string) (net.Conn, error) {
	var dial func(context.Context, string, string) (net.Conn, error)
	dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		server := &sshserver.Server{
			HostKey: hostKey, Authorize: func(string, xssh.PublicKey) error { return nil }, Forward: dial,
			Exec: func(_ context.Context, user, command string, _ io.Reader, out, _ io.Writer) int {
				_, _ = fmt.Fprintf(out, "%s@%s: %s", user, addr, strings.ReplaceAll(command, "'", ""))
				return 0
			},
		}
		near, far := net.Pipe()
		go server.ServeConn(ctx, far)
		return near, nil
	}
	return dial
}

// A client connects when it is first used.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, _ := os.MkdirTemp("", "example")
	defer func() { _ = os.RemoveAll(dir) }()
	private, _, _ := ssh.GenerateKey()
	keyFile := filepath.Join(dir, "id_ed25519")
	_ = os.WriteFile(keyFile, private, 0o600)
	signer, err := ssh.LoadSigner(keyFile)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The host key came over a channel that is trusted already.
	known := ssh.NewKnownHosts(filepath.Join(dir, "known_hosts"))
	_ = known.Store("10.0.0.11:22", signer.PublicKey())

	node := ssh.New(ssh.Config{
		Addr:     "10.0.0.11:22",
		User:     "ubuntu",
		Signers:  []xssh.Signer{signer},
		HostKeys: known.HostKeys,
		Dial:     fleet(ctx, signer), // left out for a plain TCP dial
	})
	defer func() { _ = node.Close() }()
	out, err := remote.Output(ctx, node, "systemctl", "is-active", "k3s")
	fmt.Println(string(out), err)
	// Output:
	// ubuntu@10.0.0.11:22: systemctl is-active k3s <nil>
}

// A jump host is the previous client's Dial.
func ExampleClient_Dial() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	private, _, _ := ssh.GenerateKey()
	signer, _ := xssh.ParsePrivateKey(private)
	cfg := ssh.Config{
		Addr: "bastion:22", User: "jump",
		Signers:  []xssh.Signer{signer},
		HostKeys: ssh.Pin(signer.PublicKey()),
		Dial:     fleet(ctx, signer),
	}
	bastion := ssh.New(cfg)
	defer func() { _ = bastion.Close() }()

	cfg.Addr, cfg.User, cfg.Dial = "10.0.0.11:22", "ubuntu", bastion.Dial
	node := ssh.New(cfg)
	defer func() { _ = node.Close() }()
	out, err := remote.Output(ctx, node, "uptime")
	fmt.Println(string(out), err)
	// Output:
	// ubuntu@10.0.0.11:22: uptime <nil>
}

// A server with another key than the pinned one is refused before anything is sent.
func ExampleHostKeyError() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	private, _, _ := ssh.GenerateKey()
	signer, _ := xssh.ParsePrivateKey(private)
	_, err := ssh.Dial(ctx, ssh.Config{
		Addr: "10.0.0.11:22", User: "ubuntu",
		Signers:  []xssh.Signer{signer},
		HostKeys: ssh.Pin(), // nothing is known
		Dial:     fleet(ctx, signer),
	})
	fmt.Println(err)
	// Output:
	// no host key of 10.0.0.11:22 is known, and an unknown key is not trusted: read the key over a trusted channel, or add it to known_hosts
}
