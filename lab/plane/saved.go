package plane

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Save returns etcd's own snapshot, which etcd sends with its SHA-256 behind it (snapshot of
// clientv3, sendSnapshot of server/etcdserver/api/v3rpc/maintenance.go), and the keys that it
// needs: of the authority, of service accounts, and of the Secrets.
func (p *plane) Save(ctx context.Context) (*guest.PlaneSaved, error) {
	cp := p.cp
	tls, err := rest.TLSConfigFor(restConfig(cp.url(), cp.ca.pem, cp.admin))
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	const patience = 10 * time.Second
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://127.0.0.1:" + strconv.Itoa(cp.etcd)}, TLS: tls, Context: ctx, DialTimeout: patience, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	defer func() { _ = client.Close() }()
	stream, err := client.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	defer stream.Close()
	out := &guest.PlaneSaved{}
	if out.Snapshot, err = io.ReadAll(stream); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cp.ca.key)
	if err != nil {
		return nil, fmt.Errorf("the authority's key: %w", err)
	}
	service, err := os.ReadFile(cp.ca.path("service.key"))
	if err != nil {
		return nil, fmt.Errorf("the key of service accounts: %w", err)
	}
	out.Authority = append(append(encode("CERTIFICATE", cp.ca.cert.Raw), encode("PRIVATE KEY", key)...), service...)
	if !cp.plain {
		if out.Encryption, err = os.ReadFile(cp.encryptionFile()); err != nil {
			return nil, fmt.Errorf("the key of Secrets: %w", err)
		}
	}
	return out, nil
}

// authority is that of the saved state, or a new one.
func (cp *controlPlane) authority() (*authority, error) {
	dir := filepath.Join(cp.dir, "pki")
	if cp.saved == nil || cp.reads {
		return newAuthority(dir)
	}
	cert, rest := pem.Decode(cp.saved.Authority)
	key, _ := pem.Decode(rest)
	if cert == nil || key == nil {
		return nil, errors.New("the saved state has no authority with its key")
	}
	a := &authority{dir: dir}
	var err error
	if a.cert, err = x509.ParseCertificate(cert.Bytes); err != nil {
		return nil, fmt.Errorf("the saved authority: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the saved authority's key: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, errors.New("the saved authority's key signs nothing")
	}
	a.key = signer
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return a.written()
}

// prepareState writes the keys of service accounts and Secrets, and the snapshot: what was
// saved, or new ones.
func (cp *controlPlane) prepareState() error {
	service, err := signingKey()
	if err != nil {
		return err
	}
	if cp.saved != nil && !cp.reads {
		_, rest := pem.Decode(cp.saved.Authority)
		if _, service = pem.Decode(rest); len(service) == 0 {
			return errors.New("the saved state has no key of service accounts")
		}
	}
	if err := cp.ca.write("service.key", service); err != nil {
		return err
	}
	encryption := newEncryption()
	if cp.saved != nil {
		encryption = cp.saved.Encryption
		if err := writeAtomic(cp.snapshotFile(), cp.saved.Snapshot); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	if cp.plain {
		return nil
	}
	if err := writeAtomic(cp.encryptionFile(), encryption); err != nil {
		return fmt.Errorf("the key of Secrets: %w", err)
	}
	return nil
}

// newEncryption is the API server's configuration with a new key, as K3s writes it
// (pkg/secretsencrypt/config.go).
func newEncryption() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	type m = map[string]any
	out, _ := json.Marshal(m{ // of texts alone
		"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
		"resources": []any{m{"resources": []string{"secrets"}, "providers": []any{
			m{"aescbc": m{"keys": []any{m{"name": "aescbckey", "secret": base64.StdEncoding.EncodeToString(key)}}}},
			m{"identity": m{}},
		}}},
	})
	return out
}

// encryptionFile says how Secrets are encrypted in etcd, with the key.
func (cp *controlPlane) encryptionFile() string { return filepath.Join(cp.dir, "encryption.json") }

func (cp *controlPlane) snapshotFile() string { return filepath.Join(cp.dir, "snapshot") }

func (cp *controlPlane) restoreArgs() []string {
	if cp.saved == nil {
		return nil
	}
	return []string{"-restore=" + cp.snapshotFile()}
}

func (cp *controlPlane) encryptionArgs() []string {
	if cp.plain {
		return nil
	}
	return []string{"--encryption-provider-config=" + cp.encryptionFile()}
}

// deregisterAll says of the nodes in a restored state that their kubelets are silent, which is
// so until they join.
func (cp *controlPlane) deregisterAll(ctx context.Context) error {
	if cp.saved == nil {
		return nil
	}
	nodes, err := cp.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("restored nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if err := deregister(ctx, cp.client, n.Name); err != nil {
			return err
		}
	}
	return nil
}
