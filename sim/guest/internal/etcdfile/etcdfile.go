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
	"time"

	"go.etcd.io/bbolt"
)

// Encode makes a snapshot of these keys.
func Encode(keys map[string][]byte) ([]byte, error) {
	var out []byte
	err := inFile(nil, func(name string) error {
		db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error { return fill(tx, keys) })
		if err = errors.Join(err, db.Close()); err != nil {
			return err
		}
		out, err = os.ReadFile(name)
		return err
	})
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), err
}

// fill puts each key in with a revision of its own.
func fill(tx *bbolt.Tx, keys map[string][]byte) error {
	for _, name := range []string{"meta", "members", "cluster", "lease", "auth"} {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	b, err := tx.CreateBucket([]byte("key"))
	if err != nil {
		return err
	}
	for i, key := range slices.Sorted(maps.Keys(keys)) {
		revision := binary.BigEndian.AppendUint64(nil, uint64(i+2))
		revision = append(append(revision, '_'), make([]byte, 8)...)
		if err := b.Put(revision, keyValue(key, uint64(i+2), keys[key])); err != nil {
			return err
		}
	}
	return nil
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
	size := len(file) - sha256.Size
	if size <= 0 || size%512 != 0 {
		return nil, errors.New("snapshot missing hash but --skip-hash-check=false")
	}
	if sum := sha256.Sum256(file[:size]); !bytes.Equal(sum[:], file[size:]) {
		return nil, fmt.Errorf("expected sha256 %v, got %v", file[size:], sum[:])
	}
	out := map[string][]byte{}
	err := inFile(file[:size], func(name string) error {
		db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		err = db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("key")).ForEach(func(_, entry []byte) error {
				key, value := take(entry)
				out[key] = value
				return nil
			})
		})
		return errors.Join(err, db.Close())
	})
	return out, err
}

// take is the reverse of keyValue, which alone has made what it reads.
func take(b []byte) (key string, value []byte) {
	for len(b) > 0 {
		tag := b[0]
		n, size := binary.Uvarint(b[1:])
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
