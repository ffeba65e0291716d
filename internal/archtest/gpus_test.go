package archtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counters are the files besides the way of a GPU that count what nodes ask for, and why.
var counters = map[string]string{
	"cluster/clusterfile/capacity.go": "adds up what a host must have",
	"internal/placement/place.go":     "finds a host with enough cards",
	"internal/labneeds/labneeds.go":   "gives the lab's hosts their cards",
}

// TestTheWayOfAGPU: ten files, and a page that names them. Other code that wants to know how many GPUs
// a node has asks them.
func TestTheWayOfAGPU(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "## The way of a GPU\n")
	table, _, _ := strings.Cut(rest, "\n\n`")
	var way []string
	for line := range strings.SplitSeq(table, "\n") {
		if _, file, ok := strings.Cut(line, "| `"); ok {
			way = append(way, strings.TrimSuffix(file, "` |"))
		}
	}
	assert.Len(t, way, 10)
	for _, file := range way {
		assert.FileExists(t, "../../"+file)
	}
	cmd := exec.CommandContext(t.Context(), "git", "grep", "-l", "GPUs\\.Count", "--", "cluster/*.go", "internal/*.go", "fleet/*.go", "jupyterhub/*.go", "kube/*.go", "magefiles/*.go", ":!*_test.go")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	for file := range strings.FieldsSeq(string(out)) {
		assert.True(t, counters[file] != "" || strings.Contains(table, "`"+file+"`"), "%s reads GPUs.Count: ask Node.HasGPUs or offer.Of", file)
	}
}
