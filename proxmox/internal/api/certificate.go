package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// Certificate requests the certificate of the host at endpoint, in any spelling, before anything is
// sent to the host. It returns the certificate's SHA-256 fingerprint, and whether an authority that
// this system trusts has signed it for that name. Proxmox makes an authority of its own, which no
// other system trusts.
func Certificate(ctx context.Context, endpoint string) (fingerprint string, trusted bool, err error) {
	address, err := parseEndpoint(endpoint)
	if err != nil {
		return "", false, err
	}
	name, _, _ := net.SplitHostPort(address) // parseEndpoint has joined it
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	d := tls.Dialer{NetDialer: dialer(), Config: &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true}} // the certificate is checked below, and nothing is sent
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", false, fmt.Errorf("proxmox: %s cannot be reached: %w\n  is the address right, the host up, and port 8006 open from here?", address, err)
	}
	defer func() { _ = conn.Close() }()
	shown := conn.(*tls.Conn).ConnectionState().PeerCertificates
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, bad := shown[0].Verify(x509.VerifyOptions{DNSName: name, Intermediates: between})
	return Fingerprint(shown[0]), bad == nil, nil
}
