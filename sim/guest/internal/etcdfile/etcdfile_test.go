package etcdfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThereAndBack(t *testing.T) {
	keys := map[string][]byte{"/registry/minions/cp1": []byte("{}"), "/bootstrap/0123": make([]byte, 10000), "/a": {}}
	file, err := Encode(keys)
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
