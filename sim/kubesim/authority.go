package kubesim

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

// authority signs the certificates of one cluster.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	server atomic.Pointer[tls.Certificate]
	admin  tls.Certificate
}

func newAuthority(cfg guest.PlaneConfig) (*authority, error) {
	a, err := rootOf(cfg.Saved)
	if err != nil {
		return nil, fmt.Errorf("kubesim: %w", err)
	}
	if err := a.serve(cfg.ServiceCIDR, cfg.TLSSANs); err != nil {
		return nil, err
	}
	admin := template("system:admin")
	admin.Subject.Organization = []string{"system:masters"}
	admin.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	a.admin, err = a.sign(admin)
	return a, err
}

// serve makes the API server's certificate, for names and addresses.
func (a *authority) serve(services netip.Prefix, sans []string) error {
	server := template("k3s")
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
	signed, err := a.sign(server)
	if err != nil {
		return err
	}
	a.server.Store(&signed)
	return nil
}

// rootOf makes an authority, or takes that of a restored cluster.
func rootOf(saved *guest.PlaneSaved) (*authority, error) {
	a := &authority{}
	var err error
	if saved != nil {
		cert, rest := pem.Decode(saved.Authority)
		key, _ := pem.Decode(rest)
		if cert == nil || key == nil {
			return nil, errors.New("the snapshot has no certificate authority")
		}
		if a.cert, err = x509.ParseCertificate(cert.Bytes); err == nil {
			a.key, err = x509.ParseECPrivateKey(key.Bytes)
		}
		return a, err
	}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	root := template("k3s-server-ca")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, root, root, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	return a, err
}

// saved is the authority as it is in a snapshot.
func (a *authority) saved() ([]byte, error) {
	key, err := x509.MarshalECPrivateKey(a.key)
	return append(encode("CERTIFICATE", a.cert.Raw), encode("EC PRIVATE KEY", key)...), err
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)) // never fails, see crypto/rand
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func (a *authority) sign(cert *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("kubesim: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("kubesim: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func (a *authority) serverTLS() *tls.Config {
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.server.Load(), nil }, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
	}
}

// kubeconfig writes what K3s writes to /etc/rancher/k3s/k3s.yaml.
func (a *authority) kubeconfig(server string) []byte {
	const name = "default"
	key, err := x509.MarshalECPrivateKey(a.admin.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		panic(err) // a key that we have just made
	}
	cfg := clientcmdapi.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []clientcmdapi.NamedCluster{{Name: name, Cluster: clientcmdapi.Cluster{
			Server: server, CertificateAuthorityData: encode("CERTIFICATE", a.cert.Raw)}}},
		Contexts: []clientcmdapi.NamedContext{{Name: name, Context: clientcmdapi.Context{Cluster: name, AuthInfo: name}}},
		AuthInfos: []clientcmdapi.NamedAuthInfo{{Name: name, AuthInfo: clientcmdapi.AuthInfo{
			ClientCertificateData: encode("CERTIFICATE", a.admin.Certificate[0]), ClientKeyData: encode("EC PRIVATE KEY", key)}}},
	}
	b, err := yaml.Marshal(cfg)
	if err != nil {
		panic(err) // a struct of strings
	}
	return b
}

func encode(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}
