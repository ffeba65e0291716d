package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// database is a file of bbolt, etcd's storage, in memory (internal/common of go.etcd.io/bbolt:
// page.go, meta.go, inode.go). It is read here, and not with bbolt, because that maps the file
// and trusts it: a damaged one ends the program.
type database struct {
	file []byte
	size uint64 // of a page
	high uint64 // pages with this number or a higher one do not exist
	root uint64
	seen map[uint64]bool // pages that were read: each belongs in one place
}

// Sizes in bytes, and what pages and entries are.
const (
	pageHead  = 16
	element   = 16
	metaSize  = 64
	metaMagic = 0xED0CDAED

	pageBranch, pageLeaf, pageMeta = 0x01, 0x02, 0x04
	entryBucket                    = 0x01
	deepest                        = 64 // levels of a tree; each has at least two branches
)

var errDatabase = errors.New("the database in it is broken")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDatabase, fmt.Sprintf(format, args...))
}

// openDatabase finds the newer of the two meta pages whose checksum is right.
func openDatabase(file []byte) (*database, error) {
	var db *database
	newest := uint64(0)
	for _, size := range []uint64{4096, 8192, 16384, 32768, 65536, 2048, 1024} {
		for at := uint64(0); at <= size; at += size {
			if at+pageHead+metaSize > uint64(len(file)) {
				continue
			}
			b := file[at+pageHead : at+pageHead+metaSize]
			sum := fnv.New64a()
			_, _ = sum.Write(b[:56])
			tx := binary.LittleEndian.Uint64(b[48:])
			if binary.LittleEndian.Uint32(b) != metaMagic || binary.LittleEndian.Uint64(b[56:]) != sum.Sum64() ||
				uint64(binary.LittleEndian.Uint32(b[8:])) != size || db != nil && tx < newest {
				continue
			}
			newest = tx
			db = &database{file: file, size: size, root: binary.LittleEndian.Uint64(b[16:]), high: binary.LittleEndian.Uint64(b[40:]), seen: map[uint64]bool{}}
		}
		if db != nil {
			return db, nil
		}
	}
	return nil, errors.New("not a database of etcd")
}

// page returns a page with its overflow, from its head on.
func (db *database) page(id uint64) ([]byte, error) {
	pages := uint64(len(db.file)) / db.size
	if id < 2 || id >= db.high || id >= pages {
		return nil, broken("page %d is not in the file", id)
	}
	b := db.file[id*db.size:]
	more := uint64(binary.LittleEndian.Uint32(b[12:]))
	if binary.LittleEndian.Uint64(b) != id || more >= pages-id {
		return nil, broken("page %d has another head", id)
	}
	for i := id; i <= id+more; i++ {
		if db.seen[i] {
			return nil, broken("page %d is in two places", i)
		}
		db.seen[i] = true
	}
	return b[:(more+1)*db.size], nil
}

// eachEntry calls do for all entries below a page, in their order.
func (db *database) eachEntry(id uint64, do func(key, value []byte, bucket bool) error) error {
	var last []byte
	return db.walk(id, 0, func(key, value []byte, bucket bool) error {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return broken("its keys are out of order")
		}
		last = key
		return do(key, value, bucket)
	})
}

func (db *database) walk(id uint64, depth int, do func(key, value []byte, bucket bool) error) error {
	b, err := db.page(id)
	if err != nil {
		return err
	}
	if depth > deepest {
		return broken("its tree is too deep")
	}
	return db.entries(b, depth, do)
}

// entries reads a branch or a leaf. A small bucket is a leaf inside an entry.
func (db *database) entries(b []byte, depth int, do func(key, value []byte, bucket bool) error) error {
	flags, count := binary.LittleEndian.Uint16(b[8:]), int(binary.LittleEndian.Uint16(b[10:]))
	if flags != pageBranch && flags != pageLeaf || pageHead+count*element > len(b) {
		return broken("a page of another kind is in its tree")
	}
	taken := uint64(0) // by entries, none of which is in two places
	for i := range count {
		at := pageHead + i*element
		e := b[at : at+element]
		if flags == pageBranch {
			if err := db.walk(binary.LittleEndian.Uint64(e[8:]), depth+1, do); err != nil {
				return err
			}
			continue
		}
		pos, keys, values := uint64(binary.LittleEndian.Uint32(e[4:])), uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))
		begin := uint64(at) + pos
		if taken += keys + values; begin+keys+values > uint64(len(b)) || taken > uint64(len(b)) {
			return broken("an entry ends behind its page")
		}
		key, value := b[begin:begin+keys], b[begin+keys:begin+keys+values]
		if err := do(key, value, binary.LittleEndian.Uint32(e)&entryBucket != 0); err != nil {
			return err
		}
	}
	return nil
}

// bucket calls do for all entries of one bucket of the database, and reads through the others.
func (db *database) bucket(name string, do func(key, value []byte) error) error {
	found := false
	err := db.eachEntry(db.root, func(key, value []byte, bucket bool) error {
		if !bucket || len(value) < 16 {
			return broken("it has an entry outside of buckets")
		}
		read := func(key, value []byte, inner bool) error { return nil }
		if string(key) == name {
			found = true
			read = func(key, value []byte, inner bool) error { return do(key, value) }
		}
		if root := binary.LittleEndian.Uint64(value); root != 0 {
			return db.eachEntry(root, read)
		}
		if len(value) < 16+pageHead {
			return broken("a bucket has no page")
		}
		return db.entries(value[16:], deepest, read)
	})
	if err == nil && !found {
		err = errors.New("the database has no keys: it is not etcd's")
	}
	return err
}
