// Package etcdfile writes and reads snapshots of etcd: the database, by bbolt, with its
// SHA-256 behind it, as `etcdctl snapshot save` leaves it (client/v3/snapshot and mvcc of
// etcd 3.6).
package etcdfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// Encode makes a snapshot of these keys, which come on top of another snapshot; nil: of
// nothing. Keys of that one which begin with stale, and are not among the new ones, are deleted.
func Encode(base []byte, keys map[string][]byte, stale string) ([]byte, error) {
	base, err := database(base)
	if err != nil {
		return nil, err
	}
	var out []byte
	err = inFile(base, func(name string) error {
		db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error { return fill(tx, keys, stale) })
		if err = errors.Join(err, db.Close()); err != nil {
			return err
		}
		out, err = os.ReadFile(name)
		return err
	})
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), err
}

// fill puts each key in with a revision of its own, the next ones.
func fill(tx *bbolt.Tx, keys map[string][]byte, stale string) error {
	for _, name := range []string{"meta", "members", "cluster", "lease", "auth"} {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	b, err := tx.CreateBucketIfNotExists([]byte("key"))
	if err != nil {
		return err
	}
	next := uint64(2)
	if last, _ := b.Cursor().Last(); len(last) >= 8 {
		next = binary.BigEndian.Uint64(last) + 1
	}
	was, err := alive(b)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, again := keys[key]; again || stale == "" || !strings.HasPrefix(key, stale) {
			continue
		}
		if err := b.Put(append(revision(next), 't'), append([]byte{1<<3 | 2, byte(len(key))}, key...)); err != nil {
			return err
		}
		next++
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := b.Put(revision(next), keyValue(key, next, keys[key])); err != nil {
			return err
		}
		next++
	}
	return nil
}

// revision is the key of an entry, the first of its transaction.
func revision(main uint64) []byte {
	return append(append(binary.BigEndian.AppendUint64(nil, main), '_'), make([]byte, 8)...)
}

// alive are the keys that exist at the end. The entry of a deletion has a t behind its revision
// (server/storage/mvcc/revision.go of etcd).
func alive(b *bbolt.Bucket) (map[string][]byte, error) {
	out := map[string][]byte{}
	return out, b.ForEach(func(revision, entry []byte) error {
		key, value := take(entry)
		if len(revision) == 18 {
			delete(out, key)
			return nil
		}
		out[key] = value
		return nil
	})
}

// keyValue is mvccpb.KeyValue: key, the revisions of its creation and last change, version,
// and value.
func keyValue(key string, revision uint64, value []byte) []byte {
	out := append([]byte{1<<3 | 2}, binary.AppendUvarint(nil, uint64(len(key)))...)
	out = append(out, key...)
	for field, n := range map[byte]uint64{2: revision, 3: revision, 4: 1} {
		out = binary.AppendUvarint(append(out, field<<3), n)
	}
	out = binary.AppendUvarint(append(out, 5<<3|2), uint64(len(value)))
	return append(out, value...)
}

// Decode returns the keys of a snapshot, or etcd's own error for a file that is none
// (etcdutl/snapshot/v3_snapshot.go).
func Decode(file []byte) (map[string][]byte, error) {
	content, err := database(file)
	if err == nil && content == nil {
		err = errNoHash
	}
	if err != nil {
		return nil, err
	}
	var out map[string][]byte
	err = inFile(content, func(name string) error {
		db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		err = db.View(func(tx *bbolt.Tx) (err error) {
			out, err = alive(tx.Bucket([]byte("key")))
			return err
		})
		return errors.Join(err, db.Close())
	})
	return out, err
}

var errNoHash = errors.New("snapshot missing hash but --skip-hash-check=false")

// database is a snapshot without its digest, which has to be right.
func database(file []byte) ([]byte, error) {
	if file == nil {
		return nil, nil
	}
	size := len(file) - sha256.Size
	if size <= 0 || size%512 != 0 {
		return nil, errNoHash
	}
	if sum := sha256.Sum256(file[:size]); !bytes.Equal(sum[:], file[size:]) {
		return nil, fmt.Errorf("expected sha256 %v, got %v", file[size:], sum[:])
	}
	return file[:size], nil
}

// take is the reverse of keyValue, which etcd's own entries are like.
func take(b []byte) (key string, value []byte) {
	for len(b) > 0 {
		tag := b[0]
		n, size := binary.Uvarint(b[1:])
		if size <= 0 || tag&7 == 2 && n > uint64(len(b)-1-size) {
			return key, value // not an entry: the digest says that it was written so
		}
		b = b[1+size:]
		if tag&7 == 0 {
			continue
		}
		if tag>>3 == 1 {
			key = string(b[:n])
		} else {
			value = bytes.Clone(b[:n])
		}
		b = b[n:]
	}
	return key, value
}

// inFile lets do work on a file with that content: bbolt maps its files.
func inFile(content []byte, do func(name string) error) error {
	f, err := os.CreateTemp("", "etcd-snapshot-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return do(f.Name())
}
