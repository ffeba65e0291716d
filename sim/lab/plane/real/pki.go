package real

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the cluster's CA, recreated for each.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	dir  string // where files go, 0700
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

// year is the validity of leaf certificates, as in K3s.
const year = 365 * 24 * time.Hour

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fmt.Sprintf("k3s-server-ca@%d", now.Unix())},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10 * year), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return (&authority{cert: cert, key: key, dir: dir}).written()
}

// written writes its certificate where the components find it.
func (a *authority) written() (*authority, error) {
	a.pem = encode("CERTIFICATE", a.cert.Raw)
	return a, a.write("ca.crt", a.pem)
}

// issue makes a certificate for both sides of a connection.
func (a *authority) issue(name, group string, sans ...string) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("certificate %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, fmt.Errorf("certificate %s: %w", name, err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(year),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	for _, san := range sans {
		if ip := net.ParseIP(san); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if san != "" {
			template.DNSNames = append(template.DNSNames, san)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	return pair{cert: encode("CERTIFICATE", der), key: keyPEM}, err
}

// issueFile issues a certificate into files and returns their paths.
func (a *authority) issueFile(file, name, group string, sans ...string) (cert, key string, err error) {
	p, err := a.issue(name, group, sans...)
	if err != nil {
		return "", "", err
	}
	// The key first, so that a watcher of the certificate finds the matching key.
	if err := a.write(file+".key", p.key); err != nil {
		return "", "", err
	}
	return a.path(file + ".crt"), a.path(file + ".key"), a.write(file+".crt", p.cert)
}

// signingKey makes the key that service account tokens are signed with.
func signingKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return encodeKey(key)
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

func (a *authority) write(file string, data []byte) error {
	if err := writeAtomic(a.path(file), data); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

// writeAtomic atomically writes a file that only we may read.
func writeAtomic(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}
