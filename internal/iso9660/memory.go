package iso9660

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/diskfs/go-diskfs/backend"
)

// memory is a disk in memory for go-diskfs to write to.
type memory struct {
	data []byte
	at   int64
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); end > int64(len(m.data)) {
		m.data = append(m.data, make([]byte, end-int64(len(m.data)))...)
	}
	return copy(m.data[off:], p), nil
}

// pad fills up to a whole number of blocks.
func (m *memory) pad(block int) {
	if rest := len(m.data) % block; rest != 0 {
		m.data = append(m.data, make([]byte, block-rest)...)
	}
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m.data)) {
		return 0, io.EOF
	}
	n := copy(p, m.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Read(p []byte) (int, error) {
	n, err := m.ReadAt(p, m.at)
	m.at += int64(n)
	return n, err
}

func (m *memory) Seek(off int64, whence int) (int64, error) {
	return seek(&m.at, off, whence, int64(len(m.data)))
}

func (m *memory) Stat() (fs.FileInfo, error)              { return info(len(m.data)), nil }
func (m *memory) Close() error                            { return nil }
func (m *memory) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (m *memory) Writable() (backend.WritableFile, error) { return m, nil }
func (m *memory) Path() string                            { return "" }

func seek(at *int64, off int64, whence int, size int64) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += *at
	case io.SeekEnd:
		off += size
	}
	if off < 0 {
		return 0, errors.New("seek before the start")
	}
	*at = off
	return off, nil
}

// info describes a disk in memory.
type info int64

func (i info) Name() string       { return "image" }
func (i info) Size() int64        { return int64(i) }
func (i info) Mode() fs.FileMode  { return 0o600 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
