package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chartStep is a line that says that a release was changed.
var chartStep = regexp.MustCompile(`(?m) (chart/\S+) +done`)

// TestPlatform brings the example up to its notebooks: again nothing is to do, one
// profile that changes changes the hub's release and nothing else, and a server of
// each profile starts and computes.
func TestPlatform(t *testing.T) {
	u := newUser(t)
	require.NoError(t, os.Remove(filepath.Join(u.dir, "cluster.yaml"))) // the example is what there is without
	_, talk := u.must(t, "cluster:up")
	for _, part := range []string{"nfs", "scratch", "metallb", "cert-manager", "rancher", "monitoring", "dcgm-exporter", "jupyterhub"} {
		assert.Contains(t, talk, "chart/"+part)
	}
	u.must(t, "cluster:plan")
	_, talk = u.must(t, "cluster:up")
	assert.Contains(t, talk, "Nothing to change")
	_, talk = u.must(t, "hub:verify")
	t.Log(talk)

	file := strings.Replace(example(t), "limit: 2}", "limit: 3}", 1)
	require.NotEqual(t, example(t), file)
	u.write(t, "cluster.yaml", file)
	_, talk = u.must(t, "cluster:up")
	var changed []string
	for _, line := range chartStep.FindAllStringSubmatch(talk, -1) {
		changed = append(changed, line[1])
	}
	assert.Equal(t, []string{"chart/jupyterhub"}, changed, talk)
	u.must(t, "cluster:plan")
	u.must(t, "cluster:down", "-yes")
	u.saidNoSecrets(t)
}
