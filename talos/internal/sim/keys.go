package sim

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/siderolabs/crypto/x509"
)

// errAway is a machine without its API.
var errAway = errors.New("connect: connection refused")

// maintenanceKey is a certificate of an authority that lives as long as a boot
// (controllers/secrets/maintenance_root.go).
func maintenanceKey() (tls.Certificate, error) {
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.NotAfter(time.Now().Add(time.Hour)))
	if err != nil {
		return tls.Certificate{}, err
	}
	return issue(ca, x509.CommonName("maintenance-service.talos.dev"))
}

func issue(ca *x509.CertificateAuthority, of ...x509.Option) (tls.Certificate, error) {
	of = append(of, x509.NotAfter(time.Now().Add(time.Hour)), x509.KeyUsage(stdx509.KeyUsageDigitalSignature),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}))
	pair, err := x509.NewKeyPair(ca, of...)
	if err != nil {
		return tls.Certificate{}, err
	}
	return *pair.Certificate, nil
}

// fingerprint is what a machine says of its key (x509.Fingerprint.String).
func fingerprint(c tls.Certificate) string {
	leaf, err := stdx509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return "" // it is ours
	}
	return x509.SPKIFingerprint(leaf).String()
}

// tls is how the machine shows itself now. The world is locked.
func (m *Machine) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
	if m.config == nil {
		out.Certificates = []tls.Certificate{m.maintenance}
		return out, nil
	}
	if m.serving == nil {
		ca := m.authority()
		if ca == nil {
			return nil, errAway
		}
		authority, err := x509.NewCertificateAuthorityFromCertificateAndKey(ca)
		if err != nil {
			return nil, err
		}
		c, err := issue(authority, x509.IPAddresses([]net.IP{net.ParseIP(m.address)}), x509.CommonName(m.config.NetworkHostnameConfig().Hostname()))
		if err != nil {
			return nil, err
		}
		m.serving = &c
	}
	out.Certificates = []tls.Certificate{*m.serving}
	out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, stdx509.NewCertPool()
	out.ClientCAs.AppendCertsFromPEM(m.config.Machine().Security().IssuingCA().Crt)
	return out, nil
}

// authority is what signs the machine's certificate: its own, on a server, else that of a server of the same cluster
// (trustd); nil if there is none.
func (m *Machine) authority() *x509.PEMEncodedCertificateAndKey {
	own := m.config.Machine().Security().IssuingCA()
	if len(own.Key) > 0 {
		return own
	}
	for _, o := range m.world.machines {
		if o.config != nil && o.config.Cluster().ID() == m.config.Cluster().ID() {
			if ca := o.config.Machine().Security().IssuingCA(); len(ca.Key) > 0 && string(ca.Crt) == string(own.Crt) {
				return ca
			}
		}
	}
	return nil
}
