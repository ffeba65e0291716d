package session

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The version is that of the changelog's first entry, and the changelog stays readable.
func TestVersionIsThatOfTheChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	_, entry, _ := strings.Cut(string(text), "\n## ")
	first, _, _ := strings.Cut(entry, "\n")
	assert.Equal(t, Version, first)
	assert.True(t, strings.HasPrefix(BuildVersion(), Version), BuildVersion())
}
