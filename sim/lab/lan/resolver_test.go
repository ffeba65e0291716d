package lan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheResolverOfThisMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	assert.Empty(t, resolver(file))
	for text, want := range map[string]string{
		"": "", "search lan\n": "", "nameserver\n": "",
		"# by hand\nsearch lan\nnameserver 127.0.0.53\nnameserver 9.9.9.9\n": "127.0.0.53:53",
		"nameserver fd00::1\n": "[fd00::1]:53",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		assert.Equal(t, want, resolver(file), text)
	}
}
