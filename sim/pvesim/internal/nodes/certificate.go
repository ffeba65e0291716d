package nodes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Fingerprint is a certificate's as Proxmox shows it.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// SelfSigned makes a certificate for hosts of these names.
func SelfSigned(names []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: append(names, "localhost"),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(2, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Certificate is the one that the web server shows.
func Certificate(s *world.State) ([]byte, error) {
	if s.Cert == nil {
		cert, err := SelfSigned(s.Nodes())
		if err != nil {
			return nil, err
		}
		s.Cert = &cert
	}
	return s.Cert.Certificate[0], nil
}

func certificates(c *world.Call) (any, error) {
	der, err := Certificate(c.State)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, file := range []string{"pve-root-ca.pem", "pve-ssl.pem"} { // one is both here
		names := []string{}
		if file == "pve-ssl.pem" {
			node := c.Param("node")
			names = []string{"127.0.0.1", "0000:0000:0000:0000:0000:0000:0000:0001", "localhost",
				c.State.IP(node), node, node + "." + c.Host().SearchDomain()}
		}
		out = append(out, map[string]any{"filename": file, "fingerprint": Fingerprint(der), "subject": "/" + slash(parsed.Subject), "issuer": "/" + slash(parsed.Issuer),
			"notbefore": parsed.NotBefore.Unix(), "notafter": parsed.NotAfter.Unix(), "san": names, "public-key-type": "id-ecPublicKey", "public-key-bits": 256,
			"pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
	}
	return out, nil
}

func slash(n pkix.Name) string { return strings.ReplaceAll(n.String(), ",", "/") }
