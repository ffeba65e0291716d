package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Pair is a certificate that signs others.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

func (p *Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// New is a certificate and its key.
func New(cert *x509.Certificate, key crypto.Signer) *Pair { return &Pair{cert, key} }

func Parse(cert, key []byte) (*Pair, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("error decoding certificate PEM block: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("error parsing certificate: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("error parsing private key: %T does not sign", pair.PrivateKey)
	}
	return &Pair{leaf, signer}, nil
}

func Template(name string, names, ips []string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil { // of the system's randomness, which does not fail
		serial = big.NewInt(time.Now().UnixNano())
	}
	now := time.Now().Truncate(time.Second)
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	for _, ip := range ips {
		if parsed := net.ParseIP(ip); parsed != nil {
			t.IPAddresses = append(t.IPAddresses, parsed)
		}
	}
	return t
}

// Make signs t, with a new key unless one is given, and self-signed without a signer.
func Make(t *x509.Certificate, keyPEM []byte, by *Pair) (cert, key []byte, err error) {
	var signer *ecdsa.PrivateKey
	if der := DecodePEM(keyPEM); der != nil {
		if signer, err = x509.ParseECPrivateKey(der); err != nil {
			return nil, nil, fmt.Errorf("private key: %w", err)
		}
	} else if signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("private key: %w", err)
	}
	if by == nil {
		by = &Pair{t, signer}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by.Cert, signer.Public(), by.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(signer)
	if err != nil {
		return nil, nil, fmt.Errorf("private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}

// Leaf is what a program shows on both sides of a connection, for a year, as K3s' are.
func Leaf(name string, sans ...string) *x509.Certificate {
	t := Template(name, nil, nil)
	t.NotBefore, t.NotAfter = t.NotBefore.Add(-time.Hour), t.NotBefore.AddDate(1, 0, 0)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, san := range sans {
		if ip := net.ParseIP(san); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if san != "" {
			t.DNSNames = append(t.DNSNames, san)
		}
	}
	return t
}

// Request is what a controller sends to an issuer.
func Request(name string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// NewCA makes a CA of ten years.
func NewCA(name string) (cert, key []byte, err error) {
	t := Template(name, nil, nil)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	t.NotBefore, t.NotAfter = t.NotBefore.Add(-time.Hour), t.NotBefore.AddDate(10, 0, 0)
	return Make(t, nil, nil)
}

// Key reads the private key of an elliptic curve, as Make writes it.
func Key(data []byte) (crypto.Signer, error) {
	key, err := x509.ParseECPrivateKey(DecodePEM(data))
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return key, nil
}

// DecodePEM returns the first block of a kind.
func DecodePEM(data []byte) []byte {
	if block, _ := pem.Decode(data); block != nil {
		return block.Bytes
	}
	return nil
}
