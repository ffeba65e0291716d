package real

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// Options configure where control planes run.
type Options struct {
	Dir  string       // data and keys of each, in a folder of its own, 0700; deleted with it
	Logs string       // one file per component
	Exe  string       // the program that is all components: see package component
	Log  *slog.Logger // the lab's own log; nil discards it
}

// Starter returns what starts control planes.
func Starter(opts Options) plane.Start {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	var made atomic.Int64
	return func(ctx context.Context, s plane.Settings) (plane.Control, error) {
		cp := &controlPlane{
			Networks: s.Networks, exe: opts.Exe, logs: opts.Logs, log: opts.Log, saved: s.Saved,
			dir: filepath.Join(opts.Dir, strconv.FormatInt(made.Add(1), 10)),
		}
		if s.Saved != nil {
			cp.PlainSecrets = s.Saved.Encryption == nil
		}
		if err := startControlPlane(ctx, cp); err != nil {
			return nil, err
		}
		cp.forgetSaved() // etcd has it now
		return cp, nil
	}
}

var _ plane.Control = (*controlPlane)(nil)

// Config connects as administrator.
func (cp *controlPlane) Config() *rest.Config { return cp.config }

// Kubeconfig is the administrator's, for a server's URL.
func (cp *controlPlane) Kubeconfig(server string) ([]byte, error) {
	return kubeconfig(server, cp.ca.pem, cp.admin)
}

// PEM is the authority's certificate.
func (cp *controlPlane) PEM() []byte { return cp.ca.pem }

// Issue makes a certificate and its key, for both sides of a connection.
func (cp *controlPlane) Issue(names ...string) (cert, key []byte, err error) {
	name := "simulated"
	if len(names) > 0 && names[0] != "" {
		name = names[0]
	}
	p, err := cp.ca.issue(name, "", names...)
	return p.cert, p.key, err
}

// Serve adds sans to the API server's certificate, and waits until it shows the new one.
func (cp *controlPlane) Serve(ctx context.Context, sans []string) error {
	if err := cp.serve(sans); err != nil {
		return err
	}
	return cp.until(ctx, "the API server's certificate for "+strings.Join(sans, ", "), func(ctx context.Context) error {
		return cp.goodFor(ctx, sans)
	})
}

// goodFor checks the certificate that the API server shows now.
func (cp *controlPlane) goodFor(ctx context.Context, sans []string) error {
	roots := x509.NewCertPool()
	roots.AddCert(cp.ca.Cert)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", cp.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	for _, san := range sans {
		if err := shown.VerifyHostname(san); err != nil && net.ParseIP(san) != nil {
			return err
		}
	}
	return nil
}

// Reach lets the API server reach kubelets, pods and Services.
func (cp *controlPlane) Reach(to plane.Outside) { cp.egress.to.Store(&to) }

// Processes are the ids of the running components.
func (cp *controlPlane) Processes() (pids []int) {
	for _, p := range cp.processes() {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}
