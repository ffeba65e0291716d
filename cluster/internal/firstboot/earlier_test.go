package firstboot

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// User-data that a machine returns is not trusted: reading it costs no more than its size,
// and a seed that is not ours is not recognised.
func TestToldKeys(t *testing.T) {
	keys, known := userDataKeys([]byte("#cloud-config\nusers: [{name: ops, ssh_authorized_keys: [a, b]}]\n"))
	assert.True(t, known)
	assert.Equal(t, []string{"a", "b"}, keys)
	for _, text := range []string{
		"", "3", "users: [{}, {}]", "users: 3", "users: []\n---\nusers: [{}]", "users: [{ssh_authorized_keys: 3}]", "\x00",
		strings.Repeat("[", 200_000), strings.Repeat("- ", 100_000), strings.Repeat("a: {", 50_000),
		"a: &a [" + strings.Repeat("b, ", 2000) + "b]\nc: &c [" + strings.Repeat("*a, ", 2000) + "*a]\nusers: [{ssh_authorized_keys: *c}]",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, known := userDataKeys([]byte(text))
		runtime.ReadMemStats(&after)
		assert.False(t, known, "%.40q", text)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400*len(text)+1<<20), "%.40q", text)
	}
}
