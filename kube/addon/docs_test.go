package addon_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart/pins"
)

// The page for people names every part and the version that is installed.
func TestDocsNamePinnedVersions(t *testing.T) {
	text, err := os.ReadFile("../../docs/platform.md")
	require.NoError(t, err)
	for _, p := range pins.All() {
		found := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "|") && strings.Contains(line, "`"+p.Name+"`") && strings.Contains(line, p.Version) {
				found = true
			}
		}
		assert.True(t, found, "docs/platform.md has no row for %s %s", p.Name, p.Version)
	}
}
