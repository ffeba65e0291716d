package archtest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFewPackagesKnowK3s: every other package has to work with any Kubernetes, so this list may only
// become shorter.
func TestFewPackagesKnowK3s(t *testing.T) {
	var know []string
	for _, p := range list(t, "./...") {
		if slices.Contains(p.Imports, module+"k3s") {
			know = append(know, strings.TrimPrefix(p.ImportPath, module))
		}
	}
	assert.ElementsMatch(t, []string{
		"cluster/backup", "cluster/clusterfile", "cluster/internal/artifacts", "cluster/internal/k3snodes", "examples/03-two-machines",
		"internal/images", "internal/platform", "internal/session", "internal/session/backup", "internal/session/upgrade",
	}, know, "a package that asks what a machine has asks internal/distribution")
}
