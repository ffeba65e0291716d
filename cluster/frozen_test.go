package cluster_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFrozenEnds compares what a run from nothing leaves at the campaign's sites with
// testdata/frozen: what is on the hosts, in the machines and in Kubernetes. Each life of
// the campaign, whatever went wrong in it, ends in the same, see [attempt.survives]. What
// the commands say and ask is frozen in internal/session.
func TestFrozenEnds(t *testing.T) {
	for _, s := range campaignSites(t) {
		var out strings.Builder
		for _, line := range s.want {
			if len(line) > 160 { // what follows is a value of its own kind
				line = fmt.Sprintf("%s… %.6x", line[:140], sha256.Sum256([]byte(line)))
			}
			out.WriteString(line + "\n")
		}
		path := filepath.Join("testdata", "frozen", s.name+".txt")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(out.String()), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), out.String(), "run the test with -update, and say in the commit why")
	}
}
