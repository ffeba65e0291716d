package main

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/record"
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
func (p *program) open(ctx context.Context, o serving, w *world, f *folder, s *ways) error {
	for _, way := range []struct {
		flag, address string
		open          func(l net.Listener) error
	}{
		{"guests", o.guests, func(l net.Listener) error {
			f.proxy = "socks5://" + l.Addr().String()
			s.run(ctx, func(ctx context.Context) { serveSOCKS(ctx, l, w.dial) })
			return nil
		}},
		{"ssh", o.ssh, func(l net.Listener) error { return p.openSSH(ctx, w, f, s, l) }},
		{"control", o.control, func(l net.Listener) error {
			f.control = "http://" + l.Addr().String()
			s.run(ctx, func(ctx context.Context) { serveControl(ctx, l, w, f) })
			return nil
		}},
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
func (p *program) openSSH(ctx context.Context, w *world, f *folder, s *ways, l net.Listener) error {
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
	var address atomic.Value // of a string
	w.begun = func(sim *pvesim.Sim) error {
		shell, err := sim.HostShell(ctx, w.model.Hosts[0].Name, public)
		if err != nil {
			return err
		}
		address.Store(shell.Address.String())
		return f.write(knownFile, "["+host+"]:"+port+" "+shell.HostKey+"\n")
	}
	if err := w.begun(w.now()); err != nil {
		return err
	}
	s.run(ctx, func(ctx context.Context) {
		forward(ctx, l, func(ctx context.Context) (net.Conn, error) { return w.dial(ctx, "tcp", address.Load().(string)) })
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

// serveControl serves the world's state and resets it.
func serveControl(ctx context.Context, l net.Listener, w *world, f *folder) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(out http.ResponseWriter, r *http.Request) {
		text, err := w.state(r.Context(), f)
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = out.Write(text)
	})
	mux.HandleFunc("POST /reset", func(out http.ResponseWriter, _ *http.Request) {
		if err := w.reset(); err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(out, "as at the start\n")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_ = server.Serve(l)
}

// state is the world as a model, which -model accepts.
func (w *world) state(ctx context.Context, f *folder) ([]byte, error) {
	token, err := os.ReadFile(f.path(rootTokenFile))
	if err != nil {
		return nil, err
	}
	m, _, err := record.Read(ctx, record.Options{
		Endpoint: "https://" + w.model.Hosts[0].Name + ":8006", TokenID: rootToken, TokenSecret: strings.TrimSpace(string(token)),
		Client: w.now().Client(), Descriptions: true,
	})
	if err != nil {
		return nil, err
	}
	return m.YAML()
}
