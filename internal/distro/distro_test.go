package distro_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/distro"
)

func TestEveryDistributionIsWhole(t *testing.T) {
	for _, d := range distro.All() {
		assert.Equal(t, d, distro.Named(d.Name))
		byID, ok := distro.ByID(d.ID)
		assert.True(t, ok)
		assert.Equal(t, d, byID, "one release of each, so far")
		assert.NotEqual(t, d.SHA256 == "", d.SHA512 == "", "one checksum, that which is published")
		assert.Contains(t, path.Base(d.Image), d.Name)
	}
	assert.Equal(t, "ubuntu-24.04", distro.Named("nonsense").Name)
	_, ok := distro.ByID("gentoo")
	assert.False(t, ok)
}

// The page for people has a column for each, with what this table says.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/distributions.md")
	require.NoError(t, err)
	for _, d := range distro.All() {
		for _, word := range []string{d.Name, d.User, d.Mirror, d.Sums, path.Dir(strings.TrimPrefix(d.Image, "https://"))} {
			assert.Contains(t, string(page), "`"+word+"`", d.Name)
		}
	}
}
