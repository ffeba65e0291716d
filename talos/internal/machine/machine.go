package machine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"

	talosx509 "github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc"
)

// Port is where a machine's API listens.
const Port = "50000"

// Machine is one machine, and what it takes to be let in. It is not safe for concurrent use.
type Machine struct {
	Name    string
	Address netip.Addr
	Secrets *secrets.Bundle // nil: there are none yet, so it cannot have a configuration of the cluster
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Log     func(ctx context.Context, count int) ([]byte, error) // see Fingerprint

	admin *tls.Certificate // for this run: it is made when it is first needed
}

// ErrForeign means that another machine answers at the address, or that this one has the secrets of another
// cluster. Nothing was sent to it.
var ErrForeign = errors.New("another machine answers there, or one of another cluster")

// errAway means that nobody answers there yet, as while a machine boots or takes a configuration.
var errAway = errors.New("the machine's API does not answer yet")

// connect returns a client of the machine's API, and whether the machine has its configuration. It knows who
// answers before it sends anything.
func (m *Machine) connect(ctx context.Context) (*client.Client, bool, error) {
	shown, err := m.certificate(ctx)
	if err != nil {
		return nil, false, err
	}
	roots := x509.NewCertPool()
	if m.Secrets != nil && !roots.AppendCertsFromPEM(m.Secrets.Certs.OS.Crt) {
		return nil, false, errors.New("the cluster's secrets have no certificate of its authority")
	}
	if _, err := shown.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		c, err := m.configured(ctx, roots)
		return c, true, err
	}
	key, err := Fingerprint(ctx, m.Log)
	if errors.Is(err, ErrNoKey) {
		cure := "if it was another cluster's, destroy its VM"
		if m.Secrets == nil {
			cure = "bring back the file with the secrets of this cluster, which is beside cluster.yaml, from Git or from the machine that made the cluster"
		}
		return nil, false, fmt.Errorf("%s at %s: %w: its certificate is not of this cluster, and the log of %s has no key of a machine without configuration; %s",
			m.Name, m.Address, ErrForeign, m.Name, cure)
	}
	if err != nil {
		return nil, false, err
	}
	if !bytes.Equal(key, talosx509.SPKIFingerprint(shown)) {
		return nil, false, fmt.Errorf("%s at %s: %w: its key is another one than %s has in its log; look for a second machine with that address", m.Name, m.Address, ErrForeign, m.Name)
	}
	// Only the key counts: the certificate is the machine's own. It is compared again, on this connection.
	c, err := m.client(ctx, &tls.Config{InsecureSkipVerify: true, VerifyConnection: talosx509.MatchSPKIFingerprints(key), MinVersion: tls.VersionTLS13})
	return c, false, err
}

// certificate returns what the machine shows. Nothing is sent.
func (m *Machine) certificate(ctx context.Context) (*x509.Certificate, error) {
	raw, err := m.Dial(ctx, "tcp", net.JoinHostPort(m.Address.String(), Port))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.Name, errAway, err)
	}
	defer func() { _ = raw.Close() }()
	// It is judged by connect.
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.Name, errAway, err)
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

func (m *Machine) configured(ctx context.Context, roots *x509.CertPool) (*client.Client, error) {
	if m.admin == nil {
		pair, err := m.Secrets.GenerateTalosAPIClientCertificate(role.MakeSet(role.Admin))
		if err != nil {
			return nil, fmt.Errorf("a certificate of the cluster: %w", err)
		}
		admin, err := tls.X509KeyPair(pair.Crt, pair.Key)
		if err != nil {
			return nil, fmt.Errorf("a certificate of the cluster: %w", err)
		}
		m.admin = &admin
	}
	return m.client(ctx, &tls.Config{RootCAs: roots, ServerName: m.Address.String(), Certificates: []tls.Certificate{*m.admin}, MinVersion: tls.VersionTLS13})
}

func (m *Machine) client(ctx context.Context, with *tls.Config) (*client.Client, error) {
	dial := func(ctx context.Context, address string) (net.Conn, error) { return m.Dial(ctx, "tcp", address) }
	c, err := client.New(ctx, client.WithTLSConfig(with), client.WithEndpoints(net.JoinHostPort(m.Address.String(), Port)),
		client.WithGRPCDialOptions(grpc.WithContextDialer(dial)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return c, nil
}
