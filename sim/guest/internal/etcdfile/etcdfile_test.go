package etcdfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThereAndBack(t *testing.T) {
	keys := map[string][]byte{"/registry/minions/cp1": []byte("{}"), "/bootstrap/0123": make([]byte, 10000), "/a": {}}
	file, err := Encode(nil, keys, "")
	require.NoError(t, err)
	back, err := Decode(file)
	require.NoError(t, err)
	assert.Len(t, back, 3)
	assert.Equal(t, keys["/bootstrap/0123"], back["/bootstrap/0123"])
	assert.Equal(t, "{}", string(back["/registry/minions/cp1"]))

	_, err = Decode(file[:100])
	require.ErrorContains(t, err, "snapshot missing hash")
	file[len(file)/2] ^= 1
	_, err = Decode(file)
	require.ErrorContains(t, err, "expected sha256")
}

// What comes on top of a snapshot replaces what was there, and stale keys go.
func TestOnTopOfAnother(t *testing.T) {
	base, err := Encode(nil, map[string][]byte{"/registry/a": []byte("a"), "/bootstrap/old": []byte("o"), "/k3s": []byte("1")}, "")
	require.NoError(t, err)
	file, err := Encode(base, map[string][]byte{"/bootstrap/new": []byte("n"), "/k3s": []byte("2")}, "/bootstrap/")
	require.NoError(t, err)
	back, err := Decode(file)
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"/registry/a": []byte("a"), "/bootstrap/new": []byte("n"), "/k3s": []byte("2")}, back)

	base[10] ^= 1
	_, err = Encode(base, nil, "")
	require.ErrorContains(t, err, "expected sha256")
}
