package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestOnePlaceChoosesTheDistribution: which Kubernetes a file has is asked where the file is read, and where one is made
// of it. Everything else asks that one.
func TestOnePlaceChoosesTheDistribution(t *testing.T) {
	choice := regexp.MustCompile(`\bDistribution(Kubeadm|Talos|K3s)\b|\b([sS]|[sS]pec)\.Distribution [!=]= `)
	var asks []string
	require.NoError(t, filepath.WalkDir("../..", func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		b, err := os.ReadFile(file)
		if choice.Match(b) && !strings.Contains(file, "cluster/clusterfile/internal/kubernetes/") {
			asks = append(asks, strings.TrimPrefix(file, "../../"))
		}
		return err
	}))
	assert.Equal(t, []string{"cluster/distribution.go", "cluster/spec/spec.go"}, asks)
}

// TestStepsDoNotNameK3s: what members and a rescue say has the title of the cluster's Kubernetes. Keys of the file,
// as k3s.upgrade, are called what they are.
func TestStepsDoNotNameK3s(t *testing.T) {
	literal := regexp.MustCompile(`"[^"\n]*K3s[^"\n]*"`)
	var named []string
	for _, room := range []string{"members", "rescue"} {
		files, err := filepath.Glob("../../cluster/internal/" + room + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") {
				named = append(named, literal.FindAllString(string(b), -1)...)
			}
		}
	}
	assert.Empty(t, named, "ask distribution.Facts")
}
