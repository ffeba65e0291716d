package clusterfile_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/platform"
)

// scalarLine is a line with a plain text behind its key.
var scalarLine = regexp.MustCompile(`^(\s*(?:- )?[A-Za-z0-9./_-]+: +)([A-Za-z/][^#{}\[\],&*|>"']*)$`)

// No text of a file takes what a terminal would act on, but for what is handed on to
// charts and K3s as it is, and the content of files.
func TestNoTextTakesEscapes(t *testing.T) {
	data, err := os.ReadFile("testdata/good/full.yaml")
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	tried, taken := 0, []string{}
	for i, line := range lines {
		m := scalarLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		tried++
		lines[i] = m[1] + `"a\e]0;x\a"`
		_, err := clusterfile.Parse("testdata/good/full.yaml", []byte(strings.Join(lines, "\n")), platform.Check)
		lines[i] = line
		switch {
		case err == nil:
			taken = append(taken, strings.TrimSpace(line))
		case !strings.Contains(err.Error(), "U+001B"):
			require.NotContains(t, err.Error(), "\x1b", line)
		}
	}
	require.Greater(t, tried, 40)
	require.Empty(t, taken)
}
