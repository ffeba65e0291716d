package main

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// ways are listeners in addition to the API's. close ends them and waits for them.
type ways struct {
	open sync.WaitGroup
	end  []context.CancelFunc
}

func (s *ways) run(ctx context.Context, serve func(context.Context)) {
	ctx, end := context.WithCancel(ctx)
	s.end = append(s.end, end)
	s.open.Go(func() { serve(ctx) })
}

func (s *ways) close() {
	for _, end := range s.end {
		end()
	}
	s.open.Wait()
}

// open opens the listeners of the flags, and records their addresses in the folder.
func open(ctx context.Context, o serving, w *world, f *folder, s *ways) error {
	for _, way := range []struct {
		flag, address string
		open          func(l net.Listener) error
	}{
		{"guests", o.guests, func(l net.Listener) error {
			f.proxy = "socks5://" + l.Addr().String()
			s.run(ctx, func(ctx context.Context) { serveSOCKS(ctx, l, w.dial) })
			return nil
		}},
		{"ssh", o.ssh, func(l net.Listener) error { return openSSH(ctx, w, f, s, l) }},
	} {
		if way.address == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", way.address)
		if err != nil {
			return fmt.Errorf("-%s: %w", way.flag, err)
		}
		if err := way.open(l); err != nil {
			return errors.Join(fmt.Errorf("-%s: %w", way.flag, err), l.Close())
		}
	}
	return nil
}

// newKey makes a private key as OpenSSH's file has it, and its line for authorized_keys.
func newKey() (file []byte, line string, err error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(private, "pvesim")
	if err != nil {
		return nil, "", err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, "", err
	}
	return pem.EncodeToMemory(block), string(ssh.MarshalAuthorizedKey(key)), nil
}

// openSSH lets root log in to the first node with a key of the folder.
func openSSH(ctx context.Context, w *world, f *folder, s *ways, l net.Listener) error {
	private, public, err := newKey()
	if err != nil {
		return err
	}
	if err := f.write(sshKeyFile, string(private)); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	f.ssh = "-p " + port + " root@" + host
	shell, err := w.sim.HostShell(ctx, w.first, public)
	if err != nil {
		return err
	}
	if err := f.write(knownFile, "["+host+"]:"+port+" "+shell.HostKey+"\n"); err != nil {
		return err
	}
	s.run(ctx, func(ctx context.Context) {
		forward(ctx, l, func(ctx context.Context) (net.Conn, error) { return w.dial(ctx, "tcp", shell.Address.String()) })
	})
	return nil
}

// forward forwards every connection to dial's target, until ctx ends.
func forward(ctx context.Context, l net.Listener, dial func(context.Context) (net.Conn, error)) {
	accept(ctx, l, func(conn net.Conn) {
		there, err := dial(ctx)
		if err != nil {
			return
		}
		defer func() { _ = there.Close() }()
		pipe(conn, there)
	})
}
