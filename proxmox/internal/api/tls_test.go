package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fingerprint is 32 bytes, however it is written.
func TestFingerprintSpellings(t *testing.T) {
	plain := strings.Repeat("0a", 32)
	want := strings.TrimSuffix(strings.Repeat("0A:", 32), ":")
	for _, s := range []string{plain, want, strings.ToUpper(plain), strings.ReplaceAll(want, ":", " ")} {
		got, err := parseFingerprint(s)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, s := range []string{"", plain[2:], plain + "0a", strings.Repeat("zz", 32), plain[1:]} {
		_, err := parseFingerprint(s)
		assert.ErrorContains(t, err, "is not a SHA-256 fingerprint")
	}
}
