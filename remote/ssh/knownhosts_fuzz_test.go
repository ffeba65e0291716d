package ssh

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func FuzzKnownHosts(f *testing.F) {
	keys := make([]xssh.PublicKey, 2)
	lines := make([]string, 2)
	for i := range keys {
		private, _, err := GenerateKey()
		require.NoError(f, err)
		signer, err := xssh.ParsePrivateKey(private)
		require.NoError(f, err)
		keys[i] = signer.PublicKey()
		lines[i] = " " + string(xssh.MarshalAuthorizedKey(keys[i]))
	}
	f.Add([]byte("10.0.0.1"+lines[0]), "10.0.0.1:22")
	f.Add([]byte("# x\n*,!a"+lines[0]+"\n\n|1|x|y z\n@revoked *"+lines[1]), "a:22")
	f.Add([]byte("a, b,,c"+lines[1]+knownhosts.HashHostname("h")+lines[0]), "h:22")
	f.Add([]byte(" \t[h]:2222\t"+lines[1]+"\r\nx"), "h:2222")
	f.Add([]byte("a,h,b"+strings.TrimSuffix(lines[1], "\n")), "h:22")
	f.Fuzz(func(t *testing.T, content []byte, addr string) {
		name := knownhosts.Normalize(addr)
		if name == "" || strings.ContainsAny(name, ", \t\r\n\v\f*?!|#@\x00\"\\") {
			t.Skip("no name of a host")
		}
		before := knownKeys(content, name)
		stored := replaceKeys(content, name, keys[:1])
		assert.Equal(t, stored, replaceKeys(stored, name, keys[:1]), "storing again changes nothing")
		if !bytes.ContainsAny(content, "@!") {
			got := knownKeys(stored, name)
			assert.True(t, slices.ContainsFunc(got, func(k xssh.PublicKey) bool { return sameKey(k, keys[0]) }), "what was stored is known")
		}
		forgotten := replaceKeys(stored, name, nil)
		assert.LessOrEqual(t, len(knownKeys(forgotten, name)), len(before), "only patterns still know it")
		assert.Equal(t, forgotten, replaceKeys(forgotten, name, nil))
		other := "other.host.example"
		if !strings.EqualFold(name, other) {
			assert.Len(t, knownKeys(forgotten, other), len(knownKeys(content, other)), "others are left alone")
		}
	})
}

// knownKeys returns the keys that content has for name and does not revoke.
func knownKeys(content []byte, name string) []xssh.PublicKey {
	return keysOf(parseEntries(content), name)
}
