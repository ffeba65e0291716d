package kubeadm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only the one key is used: not another, not one more beside it, and nothing that is cut short.
func TestCheckKey(t *testing.T) {
	const head, end = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: x\n\n", "\n-----END PGP PUBLIC KEY BLOCK-----\n"
	for text, want := range map[string]string{
		"": "not one armoured public key",
		head + "mQENBGMHoXcBCADukGOEQyleViOgtkMV" + end: "cut short",
		head + "mAYEAAAAAQE=" + end:                     "it has the key",
		head + "tAFh" + end:                             "it has 0 keys",
		head + "????" + end:                             "illegal base64",
		head + end + head + end:                         "not one armoured public key",
	} {
		require.ErrorContains(t, checkKey([]byte(text), keyFingerprint), want, text)
	}
}

func FuzzCheckKey(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmAYEAAAAAQE=\n-----END PGP PUBLIC KEY BLOCK-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) { assert.Error(t, checkKey(b, crioFingerprint)) })
}

func TestVersions(t *testing.T) {
	assert.Equal(t, []int{-1, 0, 1, -1}, []int{CompareVersions("v1.9.0", "v1.36.0"), CompareVersions("v1.36.5", "v1.36.5"), CompareVersions("v1.36.10", "v1.36.9"), CompareVersions("", "v1.1.0")})
	assert.Equal(t, "https://pkgs.k8s.io/core:/stable:/v1.36/deb/", repositoryURL("v1.36.5"))
	for _, v := range []string{"1.36.5", "v1.36", "v1.36.5+k3s1", "v2.0.0", "v1.36.5; rm", ""} {
		assert.False(t, IsVersion(v), v)
	}
}
