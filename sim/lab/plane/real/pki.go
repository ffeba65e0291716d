package real

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
)

// authority is the cluster's CA, recreated for each.
type authority struct {
	*pki.Pair
	pem []byte
	dir string // where files go, 0700
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	cert, key, err := pki.NewCA(fmt.Sprintf("k3s-server-ca@%d", time.Now().Unix()))
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	root, err := pki.Parse(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return (&authority{Pair: root, dir: dir}).written()
}

// written writes its certificate where the components find it.
func (a *authority) written() (*authority, error) {
	a.pem = a.PEM()
	return a, a.write("ca.crt", a.pem)
}

// issue makes a certificate for both sides of a connection.
func (a *authority) issue(name, group string, sans ...string) (pair, error) {
	t := pki.Leaf(name, sans...)
	if group != "" {
		t.Subject.Organization = []string{group}
	}
	cert, key, err := pki.Make(t, nil, a.Pair)
	if err != nil {
		return pair{}, fmt.Errorf("certificate %s: %w", name, err)
	}
	return pair{cert, key}, nil
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
