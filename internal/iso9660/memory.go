package iso9660

import "github.com/diskfs/go-diskfs/backend"

// memory is a disk in memory. To make an image, go-diskfs calls nothing of a disk but these methods.
type memory struct {
	backend.Storage // nil
	data            []byte
}

func (m *memory) Writable() (backend.WritableFile, error) { return m, nil }

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
