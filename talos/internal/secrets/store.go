package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"filippo.io/age"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/secret"
)

// Bundle has all secrets of a cluster.
type Bundle = secrets.Bundle

// ErrLocked means that nothing here decrypts the file, and no machine could be asked for what it has.
var ErrLocked = errors.New("nothing here decrypts it: use the API token it was written with, or the private key of one of its recipients")

// ErrLost means that machines of the cluster have secrets that nobody here knows.
var ErrLost = errors.New("machines of this cluster have secrets, and nothing here has them: bring the file back, from Git or from the machine that made the cluster")

// Store is the file with the secrets of one cluster.
type Store struct {
	Folder     string       // of cluster.yaml
	Cluster    string       // its name
	Token      secret.Value // the secret of its API token
	Recipients []string     // public keys of age, at least one: a token can be lost with its host

	// Identities are private keys of age to try beside the token.
	Identities []age.Identity
}

// Running returns what a machine of the cluster has: nil if none has been given any secrets yet, ErrLost if one
// has, and does not give them to us.
type Running func(context.Context) (*Bundle, error)

// Path is the file's path.
func (s *Store) Path() string { return filepath.Join(s.Folder, s.Cluster+".secrets.age") }

// maxFile limits what is read: a bundle has 7 KiB.
const maxFile = 1 << 20

// Open returns the cluster's secrets. They are on the disk when it returns: a file that is missing is
// created, with new secrets only if no machine has any, and one that was written for another token or
// other recipients is written again. It can be repeated after an interruption at any point.
func (s *Store) Open(ctx context.Context, running Running) (*Bundle, error) {
	to, err := s.recipients()
	if err != nil {
		return nil, err
	}
	sealed, err := limit.File(s.Path(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s.create(ctx, to, running)
	}
	if err != nil {
		return nil, fmt.Errorf("secrets of %s: %w", s.Cluster, err)
	}
	got, err := s.decrypt(sealed)
	switch {
	case errors.Is(err, ErrLocked):
		b, lost := running(ctx)
		if lost != nil || b == nil {
			return nil, errors.Join(err, lost)
		}
		return b, s.replace(to, b)
	case err != nil:
		return nil, err
	case !got.isFor(to):
		return got.bundle, s.replace(to, got.bundle)
	}
	return got.bundle, nil
}

// Read returns the secrets of the file, and writes nothing; nil: there is none.
func (s *Store) Read() (*Bundle, error) {
	sealed, err := limit.File(s.Path(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secrets of %s: %w", s.Cluster, err)
	}
	got, err := s.decrypt(sealed)
	return got.bundle, err
}

func (s *Store) create(ctx context.Context, to []recipient, running Running) (*Bundle, error) {
	b, err := running(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s does not exist: %w", s.Path(), err)
	}
	if b == nil {
		if b, err = secrets.NewBundle(secrets.NewClock(), config.TalosVersion1_13); err != nil {
			return nil, fmt.Errorf("secrets of %s: %w", s.Cluster, err)
		}
	}
	sealed, err := s.encrypt(to, b)
	if err != nil {
		return nil, err
	}
	f, err := keep.Reserve(s.Path(), perm)
	if err != nil {
		return nil, err
	}
	if err := f.CommitNew(sealed); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("another run wrote it at the same time, run the command again: %w", err)
		}
		return nil, err
	}
	return s.readBack()
}

// perm lets others read it: it is encrypted, and meant for a repository.
const perm = 0o644

func (s *Store) replace(to []recipient, b *Bundle) error {
	sealed, err := s.encrypt(to, b)
	if err != nil {
		return err
	}
	if err := keep.WriteFile(s.Path(), sealed, perm); err != nil {
		return err
	}
	_, err = s.readBack()
	return err
}

// readBack proves that the token alone decrypts what is on the disk. What is used is what was read, never
// what was meant.
func (s *Store) readBack() (*Bundle, error) {
	sealed, err := limit.File(s.Path(), maxFile)
	if err != nil {
		return nil, fmt.Errorf("secrets of %s, just written: %w", s.Cluster, err)
	}
	alone := *s
	alone.Identities = nil
	got, err := alone.decrypt(sealed)
	if err != nil {
		return nil, fmt.Errorf("just written: %w", err)
	}
	return got.bundle, nil
}

func (s *Store) encrypt(to []recipient, b *Bundle) ([]byte, error) {
	plain, err := marshal(contents{b, s.Cluster, names(to)})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, keys(to)...)
	if err == nil {
		_, err = w.Write(plain)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt the secrets of %s: %w", s.Cluster, err)
	}
	return out.Bytes(), nil
}

func (s *Store) decrypt(sealed []byte) (contents, error) {
	own, _, err := derived(s.Token, s.Cluster)
	if err != nil {
		return contents{}, err
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), append([]age.Identity{own}, s.Identities...)...)
	if errors.As(err, new(*age.NoIdentityMatchError)) {
		return contents{}, fmt.Errorf("%s: %w", s.Path(), ErrLocked)
	}
	var plain []byte
	if err == nil {
		plain, err = io.ReadAll(limit.Reader(r, maxFile))
	}
	if err != nil {
		return contents{}, fmt.Errorf("%s is damaged, bring it back from Git or a backup: %w", s.Path(), err)
	}
	got, err := unmarshal(plain)
	if err == nil && got.cluster != s.Cluster {
		err = fmt.Errorf("it has the secrets of the cluster %q: name it after that, or bring back that of %s", got.cluster, s.Cluster)
	}
	if err != nil {
		return contents{}, fmt.Errorf("%s: %w", s.Path(), err)
	}
	return got, nil
}

func (s *Store) recipients() ([]recipient, error) {
	if len(s.Recipients) == 0 {
		return nil, errors.New("snapshots.recipients: a cluster of Talos machines needs one public key of age at least, " +
			"which decrypts the cluster's secrets when the API token is gone: age-keygen makes a pair")
	}
	var out []recipient
	for _, text := range s.Recipients {
		rs, err := backup.Recipients(text)
		if err != nil {
			return nil, fmt.Errorf("snapshots.recipients: %w", err)
		}
		for _, r := range rs {
			out = append(out, recipient{text, r})
		}
	}
	_, own, err := derived(s.Token, s.Cluster)
	return append(out, own), err
}
