package site

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
)

// certificate makes a certificate like a fresh Proxmox VE host's: self-signed, identified by
// its fingerprint.
func certificate() (tls.Certificate, string, error) {
	t := pki.Leaf("pve1", "127.0.0.1", "localhost", "pve1")
	t.Subject.Organization = []string{"Proxmox Virtual Environment (simulated)"}
	t.ExtKeyUsage, t.NotAfter = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, t.NotBefore.AddDate(2, 0, 0)
	cert, key, err := pki.Make(t, nil, nil)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("certificate: %w", err)
	}
	return pair, labctl.Fingerprint(pair.Certificate[0]), nil
}
