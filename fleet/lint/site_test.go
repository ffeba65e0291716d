package lint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// A cluster's file finds nothing wrong in what is right without it.
func TestSiteOfGoodRepositories(t *testing.T) {
	dirs, err := filepath.Glob("testdata/rules/*/good")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	site := &Site{Namespaces: []string{"monitoring"}, GPUTaints: [][]corev1.Taint{{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}}}}
	for _, dir := range dirs {
		for _, f := range lintAll(t, os.DirFS(dir), Options{Site: site}) {
			assert.NotContains(t, []string{"namespace-missing", "gpu-untolerated"}, f.Rule, "%s: %s", dir, f)
		}
	}
}
