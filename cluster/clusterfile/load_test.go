package clusterfile

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

var update = flag.Bool("update", false, "rewrite golden files and schema.json")

// TestBroken reads every file of testdata/broken, alone in a folder as a user's would be, and
// compares the whole error with the .txt of the same name.
func TestBroken(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 40)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			got, err := Parse("cluster.yaml", data, platform.Check)
			require.Error(t, err, "a broken file was accepted")
			assert.Nil(t, got)
			var problems spec.Problems
			require.ErrorAs(t, err, &problems)
			assert.NotContains(t, err.Error(), "5ec2e7", "a secret was repeated")
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "run go test ./cluster -update")
			assert.Equal(t, string(want), problems.Error()+"\n")
		})
	}
}
