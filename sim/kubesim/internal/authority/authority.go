// Package authority is a cluster's certificate authority, and the certificates of its API server and
// its administrator.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Authority signs the certificates of one cluster.
type Authority struct {
	Cert   *x509.Certificate
	Key    *ecdsa.PrivateKey
	server atomic.Pointer[tls.Certificate]
	admin  tls.Certificate
}

// New makes an authority, or that of a restored cluster.
func New(cfg guest.PlaneConfig) (*Authority, error) {
	a, err := rootOf(cfg.Saved)
	if err != nil {
		return nil, fmt.Errorf("kubesim: %w", err)
	}
	if err := a.Serve(cfg.ServiceCIDR, cfg.TLSSANs); err != nil {
		return nil, err
	}
	admin := Template("system:admin")
	admin.Subject.Organization = []string{"system:masters"}
	admin.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	a.admin, err = a.Sign(admin)
	return a, err
}

// Serve makes the API server's certificate, for names and addresses.
func (a *Authority) Serve(services netip.Prefix, sans []string) error {
	server := Template("k3s")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if services.IsValid() {
		server.IPAddresses = append(server.IPAddresses, services.Masked().Addr().Next().AsSlice())
	}
	for _, san := range sans {
		if ip, err := netip.ParseAddr(san); err == nil {
			server.IPAddresses = append(server.IPAddresses, ip.AsSlice())
		} else {
			server.DNSNames = append(server.DNSNames, san)
		}
	}
	signed, err := a.Sign(server)
	if err != nil {
		return err
	}
	a.server.Store(&signed)
	return nil
}

// rootOf makes an authority, or takes that of a restored cluster.
func rootOf(saved *guest.PlaneSaved) (*Authority, error) {
	a := &Authority{}
	var err error
	if saved != nil {
		cert, rest := pem.Decode(saved.Authority)
		key, _ := pem.Decode(rest)
		if cert == nil || key == nil {
			return nil, errors.New("the snapshot has no certificate authority")
		}
		if a.Cert, err = x509.ParseCertificate(cert.Bytes); err == nil {
			a.Key, err = x509.ParseECPrivateKey(key.Bytes)
		}
		return a, err
	}
	if a.Key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	root := Template("k3s-server-ca")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, root, root, a.Key.Public(), a.Key)
	if err == nil {
		a.Cert, err = x509.ParseCertificate(der)
	}
	return a, err
}

// PEM is the authority as it is in a snapshot.
func (a *Authority) PEM() ([]byte, error) {
	key, err := x509.MarshalECPrivateKey(a.Key)
	return append(Encode("CERTIFICATE", a.Cert.Raw), Encode("EC PRIVATE KEY", key)...), err
}

// Template is a certificate of ten years to be filled in.
func Template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)) // never fails, see crypto/rand
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// Sign makes a key, and its certificate of a template.
func (a *Authority) Sign(cert *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("kubesim: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.Cert, key.Public(), a.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("kubesim: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// ServerTLS is the API server's configuration. The certificate is the one of the last Serve.
func (a *Authority) ServerTLS() *tls.Config {
	clients := x509.NewCertPool()
	clients.AddCert(a.Cert)
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.server.Load(), nil }, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
	}
}

// Kubeconfig writes what K3s writes to /etc/rancher/k3s/k3s.yaml.
func (a *Authority) Kubeconfig(server string) []byte {
	const name = "default"
	key, err := x509.MarshalECPrivateKey(a.admin.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		panic(err) // a key that we have just made
	}
	cfg := clientcmdapi.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []clientcmdapi.NamedCluster{{Name: name, Cluster: clientcmdapi.Cluster{
			Server: server, CertificateAuthorityData: Encode("CERTIFICATE", a.Cert.Raw)}}},
		Contexts: []clientcmdapi.NamedContext{{Name: name, Context: clientcmdapi.Context{Cluster: name, AuthInfo: name}}},
		AuthInfos: []clientcmdapi.NamedAuthInfo{{Name: name, AuthInfo: clientcmdapi.AuthInfo{
			ClientCertificateData: Encode("CERTIFICATE", a.admin.Certificate[0]), ClientKeyData: Encode("EC PRIVATE KEY", key)}}},
	}
	b, err := yaml.Marshal(cfg)
	if err != nil {
		panic(err) // a struct of strings
	}
	return b
}

// Encode is a block of PEM.
func Encode(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}
