package component

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// restore makes the database of a new member from a snapshot, as etcdutl snapshot restore does
// (etcdutl/snapshot/v3_snapshot.go of etcd 3.6): the digest at the snapshot's end must be right,
// and what the old cluster knew of its members and of its log is taken out. Where there are data
// already, or no snapshot, it does nothing.
func restore(snapshot, dataDir string) error {
	db := filepath.Join(dataDir, "member", "snap", "db")
	if _, err := os.Stat(db); snapshot == "" || err == nil {
		return nil
	}
	file, err := os.ReadFile(snapshot)
	if err != nil {
		return err
	}
	size := len(file) - sha256.Size
	if size <= 0 || size%512 != 0 {
		return errors.New("the snapshot has no checksum at its end: it is none of etcd, or was cut off")
	}
	if sum := sha256.Sum256(file[:size]); !bytes.Equal(sum[:], file[size:]) {
		return errors.New("the snapshot's checksum does not match: it is damaged")
	}
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(db+".new", file[:size], 0o600); err != nil {
		return err
	}
	if err := forgetMembers(db + ".new"); err != nil {
		return err
	}
	return os.Rename(db+".new", db)
}

// forgetMembers takes the old cluster out of a database. The version of the layout stays, so
// that etcd refuses one of a later etcd.
func forgetMembers(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("the database in the snapshot: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range [][]byte{schema.Members.Name(), schema.MembersRemoved.Name(), schema.Cluster.Name()} {
			if err := tx.DeleteBucket(b); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
				return err
			}
		}
		meta := tx.Bucket(schema.Meta.Name())
		if meta == nil || tx.Bucket(schema.Key.Name()) == nil {
			return errors.New("the database in the snapshot is not one of etcd")
		}
		// Its log begins at 1; with the old index, etcd would take new entries for old ones.
		for _, key := range [][]byte{schema.MetaConsistentIndexKeyName, schema.MetaTermKeyName, schema.MetaConfStateName} {
			if err := meta.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}
