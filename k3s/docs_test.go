package k3s

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryCauseIsExplained: docs/failures.md has each permanent cause.
func TestEveryCauseIsExplained(t *testing.T) {
	text, err := os.ReadFile("../docs/failures.md")
	require.NoError(t, err)
	for _, s := range permanentSymptoms {
		assert.Contains(t, string(text), regexp.MustCompile(`, such as .*`).ReplaceAllString(s.cause, ""), "docs/failures.md lacks this cause")
		assert.NotEmpty(t, s.cure, s.text)
	}
}
