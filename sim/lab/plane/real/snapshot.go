package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
	"github.com/cps-gpu/homelab/sim/lab/plane"
)

// Save returns etcd's own snapshot, and the keys that it needs: of the authority, of service
// accounts, and of the Secrets.
func (cp *controlPlane) Save(ctx context.Context) (*guest.PlaneSaved, error) {
	file := cp.ca.path
	cmd := exec.CommandContext(ctx, cp.exe, TakeSnapshot, //nolint:gosec // our own build
		"-endpoint=https://127.0.0.1:"+strconv.Itoa(cp.etcd), "-trusted-ca-file="+file("ca.crt"), "-cert-file="+file("etcd.crt"), "-key-file="+file("etcd.key"))
	cmd.Env = environment(cp.dir)
	var snapshot, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &snapshot, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("etcd: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	out := &guest.PlaneSaved{Snapshot: snapshot.Bytes()}
	key, err := x509.MarshalPKCS8PrivateKey(cp.ca.Key)
	if err != nil {
		return nil, fmt.Errorf("the authority's key: %w", err)
	}
	service, err := os.ReadFile(cp.ca.path("service.key"))
	if err != nil {
		return nil, fmt.Errorf("the key of service accounts: %w", err)
	}
	out.Authority = slices.Concat(cp.ca.pem, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), service)
	if !cp.PlainSecrets {
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
	root, err := pki.Parse(cp.saved.Authority, cp.saved.Authority)
	if err != nil {
		return nil, fmt.Errorf("the saved state has no authority with its key: %w", err)
	}
	a := &authority{Pair: root, dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return a.written()
}

// prepareState writes the keys of service accounts and Secrets, and the snapshot: what was
// saved, or new ones.
func (cp *controlPlane) prepareState() error {
	_, service, err := pki.NewCA("service accounts") // of which the key alone counts
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
	if cp.PlainSecrets {
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
	if cp.PlainSecrets {
		return nil
	}
	return []string{"--encryption-provider-config=" + cp.encryptionFile()}
}

// silence says of the nodes in a restored state that their kubelets are silent.
func (cp *controlPlane) silence(ctx context.Context) error {
	if cp.saved == nil {
		return nil
	}
	return plane.SilenceNodes(ctx, cp.client)
}

// forgetSaved deletes what a running etcd has in its own database.
func (cp *controlPlane) forgetSaved() {
	if cp.saved != nil {
		cp.saved = nil
		_ = os.Remove(cp.snapshotFile())
	}
}
