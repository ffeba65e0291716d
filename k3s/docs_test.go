package k3s

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryCauseIsExplained: docs/failures.md has each permanent cause, and the tests that it
// names for the classic failures are there.
func TestEveryCauseIsExplained(t *testing.T) {
	text, err := os.ReadFile("../docs/failures.md")
	require.NoError(t, err)
	for _, s := range lasting {
		assert.Contains(t, string(text), regexp.MustCompile(`, such as .*`).ReplaceAllString(s.cause, ""), "docs/failures.md lacks this cause")
		assert.NotEmpty(t, s.cure, s.text)
	}
	rows := regexp.MustCompile("(?m)^\\| K([1-7]) \\|.*\\| `(Test\\w+)` in (\\S+) \\|$").FindAllStringSubmatch(string(text), -1)
	assert.Len(t, rows, 7)
	for _, row := range rows {
		code, err := os.ReadFile("../" + row[3])
		if assert.NoError(t, err, "K%s", row[1]) {
			assert.Contains(t, string(code), "func "+row[2]+"(", "K%s", row[1])
		}
	}
}
