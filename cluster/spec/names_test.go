package spec_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Our rules are those of Kubernetes.
func TestNamesAreThoseOfKubernetes(t *testing.T) {
	for _, s := range []string{
		"", "a", "A", "_", "-", ".", "a-", "-a", "a.b", "a_b", "a b", "ä", "1", "1a", "a\n", "/", "a/", "/a", "a/b", "A/b", "a.b/c", "a..b/c", "a-/b", "a/b/c", "a/-", "_a", "a_",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253) + "/a", strings.Repeat("a", 254) + "/a", "nvidia.com/gpu", "present",
	} {
		assert.Equal(t, len(validation.IsCIdentifier(s)) == 0, spec.IsVariable(s), "%q", s)
		assert.Equal(t, len(validation.IsValidLabelValue(s)) == 0, spec.IsLabelValue(s), "%q", s)
		assert.Equal(t, len(validation.IsQualifiedName(s)) == 0, spec.IsLabelKey(s), "%q", s)
	}
}
