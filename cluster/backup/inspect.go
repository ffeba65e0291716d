package backup

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

// Facts are what is in a snapshot of etcd.
type Facts struct {
	Size       int64    // of the database, in bytes
	Revision   int64    // of etcd, when the snapshot was taken
	Keys       int      // that exist at this revision
	Nodes      []string // of Kubernetes
	Namespaces []string // of Kubernetes

	Objects map[string]int // how many there are of each of Kinds, by resource

	// Authority is the SHA-256 of the cluster's certificate authority, whose private key is in
	// the snapshot, as everything else that K3s encrypts with the token.
	Authority string
	// SecretsKey reports whether the key that Secrets are encrypted with is there too.
	SecretsKey bool
	// Encryption is the API server's configuration for that, with the key.
	Encryption secret.Value `json:"-"`
}

// ErrToken means that K3s could not restore the snapshot with the token.
var ErrToken = errors.New("the token does not decrypt the authorities in the snapshot, so K3s would refuse it: find the token that the cluster had then")

// Inspect reads a snapshot as K3s makes it, of that file name: .zip says that it is
// compressed. It checks etcd's checksum at its end, all pages of the database that are in use,
// and that token opens it, or, if it is kubeadm's authorities, that they are the snapshot's. It holds the snapshot in memory, and nothing of it anywhere else.
func Inspect(ctx context.Context, snapshot io.Reader, name string, token secret.Value) (*Facts, error) {
	b, err := Plain(ctx, snapshot, name)
	if err != nil {
		return nil, err
	}
	facts, err := inspect(ctx, b, token)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", name, err)
	}
	return facts, nil
}

// Plain returns a snapshot of that file name as etcd makes it, with etcd's checksum at its end.
// It is in memory alone.
func Plain(ctx context.Context, snapshot io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(contextReader{ctx, snapshot}, largest+1))
	if err == nil && len(b) > largest {
		err = fmt.Errorf("snapshot %s: %w", name, errLargest)
	}
	if err == nil && strings.HasSuffix(name, zipped) {
		if b, err = unzip(ctx, b); err != nil {
			err = fmt.Errorf("snapshot %s: %w", name, err)
		}
	}
	return b, err
}

// unzip unpacks the only file of a compressed snapshot.
func unzip(ctx context.Context, b []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	if len(z.File) != 1 {
		return nil, fmt.Errorf("expected one file in the archive, found %d", len(z.File))
	}
	size := z.File[0].UncompressedSize64
	switch {
	case size > largest:
		return nil, errLargest
	case size > uint64(maxUnpacked(int64(len(b)), shrinks)):
		return nil, fmt.Errorf("%w: %d bytes in %d", errSwells, size, len(b))
	}
	in, err := z.File[0].Open() // gives no more than that size
	if err != nil {
		return nil, err
	}
	plain := make([]byte, size)
	_, err = io.ReadFull(contextReader{ctx, in}, plain)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // to its end, where its checksum is compared
	}
	return plain, errors.Join(err, in.Close())
}

func inspect(ctx context.Context, b []byte, token secret.Value) (*Facts, error) {
	b, err := checksum(b)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(b)
	if err != nil {
		return nil, err
	}
	facts := &Facts{Size: int64(len(b))}
	if err := facts.read(ctx, db, token); err != nil {
		return nil, err
	}
	return facts, nil
}

// checksum checks the SHA-256 that etcd appends to a snapshot (etcdutl/snapshot of etcd), and
// returns the database before it.
func checksum(b []byte) ([]byte, error) {
	size := len(b) - sha256.Size
	if size <= 0 || size%512 != 0 { // pages, and then the checksum
		return nil, errors.New("it has no checksum at its end, so it is not a snapshot of etcd, or was cut off")
	}
	if sum := sha256.Sum256(b[:size]); !bytes.Equal(sum[:], b[size:]) {
		return nil, errors.New("its checksum does not match: it is damaged")
	}
	return b[:size], nil
}

// read goes through all revisions of all keys (mvcc of etcd: the key of an entry is its
// revision, with a t behind it for a deletion, and its value is the key and what was stored).
func (f *Facts) read(ctx context.Context, db *database, token secret.Value) error {
	alive := map[string][]byte{}
	err := db.bucket("key", func(revision, entry []byte) error {
		if len(revision) < 17 {
			return errors.New("a key of the database is not a revision of etcd")
		}
		f.Revision = max(f.Revision, int64(binary.BigEndian.Uint64(revision)))
		key, value, err := keyValue(entry)
		if err != nil {
			return err
		}
		if len(revision) == 18 && revision[17] == 't' {
			delete(alive, key)
			return nil
		}
		if !strings.HasPrefix(key, bootstrapPrefix) && !strings.HasPrefix(key, rootsPrefix) {
			value = nil
		}
		alive[key] = value
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	f.Keys, f.Objects = len(alive), countKeys(alive)
	for key := range alive {
		if node, ok := strings.CutPrefix(key, "/registry/minions/"); ok {
			f.Nodes = append(f.Nodes, node)
		}
		if namespace, ok := strings.CutPrefix(key, "/registry/namespaces/"); ok {
			f.Namespaces = append(f.Namespaces, namespace)
		}
	}
	slices.Sort(f.Nodes)
	slices.Sort(f.Namespaces)
	if files := authoritiesIn(token); files != nil {
		return f.checkAuthorities(alive, files)
	}
	return f.unlock(alive, token)
}

// keyValue takes mvccpb.KeyValue of etcd apart: key is its field 1, value its field 5.
func keyValue(b []byte) (key string, value []byte, err error) {
	broken := errors.New("a value of the database is not one of etcd")
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return "", nil, broken
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 || tag&7 != 0 && tag&7 != 2 {
			return "", nil, broken
		}
		b = b[n:]
		if tag&7 == 0 {
			continue
		}
		if v > uint64(len(b)) {
			return "", nil, broken
		}
		switch tag >> 3 {
		case 1:
			key = string(b[:v])
		case 5:
			value = b[:v]
		}
		b = b[v:]
	}
	return key, value, nil
}

// hexSum is the SHA-256 of a file, as in a token.
func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// contextReader stops reading when the context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
