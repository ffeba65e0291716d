package backup

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What etcd wrote is read back, whatever other fields are beside it; what is cut off within a field is an error.
func TestKeyValue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var b []byte
		whole := map[int]bool{0: true} // lengths at which a field ends
		var key, value []byte
		for range random.IntN(6) {
			number := uint64(1 + random.IntN(20))
			if random.IntN(3) == 0 {
				b = binary.AppendUvarint(binary.AppendUvarint(b, number<<3), random.Uint64())
			} else {
				data := make([]byte, random.IntN(300))
				for i := range data {
					data[i] = byte(random.Uint32())
				}
				b = append(binary.AppendUvarint(binary.AppendUvarint(b, number<<3|2), uint64(len(data))), data...)
				switch number {
				case 1:
					key = data
				case 5:
					value = data
				}
			}
			whole[len(b)] = true
		}
		gotKey, gotValue, err := keyValue(b)
		require.NoError(t, err)
		assert.Equal(t, string(key), gotKey)
		assert.Equal(t, string(value), string(gotValue))
		for n := range b {
			_, _, err := keyValue(b[:n])
			assert.Equal(t, whole[n], err == nil, "%d of %x", n, b)
		}
	}
	for _, odd := range []byte{1, 3, 4, 5, 6, 7} {
		_, _, err := keyValue([]byte{1<<3 | odd, 0})
		assert.Error(t, err, "type %d is none of etcd's", odd)
	}
}

// The first two pages are the database's own, and no page is behind its end.
func TestPagesOfATree(t *testing.T) {
	const size = 1024
	db := &database{file: make([]byte, 8*size), size: size, high: 7, seen: map[uint64]bool{}}
	for id := range uint64(8) {
		binary.LittleEndian.PutUint64(db.file[id*size:], id)
	}
	for id := range uint64(10) {
		page, err := db.page(id)
		assert.Equal(t, id >= 2 && id < 7, err == nil, "page %d", id)
		assert.True(t, err != nil || len(page) == size)
		_, err = db.page(id)
		assert.ErrorIs(t, err, errDatabase, "page %d once more", id)
	}
	clear(db.seen)
	binary.LittleEndian.PutUint32(db.file[3*size+12:], 2)
	page, err := db.page(3)
	require.NoError(t, err)
	assert.Len(t, page, 3*size)
	_, err = db.page(5)
	require.ErrorIs(t, err, errDatabase, "it is part of page 3")
	for id, overflow := range map[uint64]uint32{6: 2, 2: 6, 4: 4} {
		binary.LittleEndian.PutUint32(db.file[id*size+12:], overflow)
		_, err := db.page(id)
		assert.ErrorIs(t, err, errDatabase, "page %d would end behind the file", id)
	}
	db.high, db.file = 100, db.file[:7*size+100]
	_, err = db.page(7)
	require.ErrorIs(t, err, errDatabase, "it is not whole")
}
