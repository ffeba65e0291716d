package skew_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/skew"
)

// One minor version forward, any patch forward, nothing back; a version that is none is not judged.
func TestCheck(t *testing.T) {
	v := skew.Versions{Program: "it", Compare: cmp.Compare[string], Unknown: "it has %q", Minor: func(version string) (minor int, ok bool) {
		n, err := fmt.Sscanf(version, "v1.%d.", &minor)
		return minor, n == 1 && err == nil
	}}
	for _, fine := range [][2]string{{"", "v1.36.5"}, {"odd", "odd"}, {"v1.36.5", "v1.36.5"}, {"v1.36.5", "v1.36.6"}, {"v1.36.5", "v1.37.0"}} {
		require.NoError(t, v.Check(fine[0], fine[1]))
	}
	require.EqualError(t, v.Check("odd", "v1.36.5"), `it has "odd"`)
	var refused *skew.Error
	require.ErrorAs(t, v.Check("v1.36.5", "v1.38.0"), &refused)
	require.ErrorIs(t, refused, skew.ErrUnsupported)
	require.EqualError(t, refused, "it cannot go from v1.36.5 to v1.38.0: upgrade one minor version at a time: write a v1.37 release first")
	require.EqualError(t, v.Check("v1.36.5", "v1.36.4"), "it cannot go from v1.36.5 to v1.36.4: Kubernetes cannot be downgraded")
	v.Back = "restore"
	assert.EqualError(t, v.Check("v1.37.0", "v1.36.9"), "it cannot go from v1.37.0 to v1.36.9: Kubernetes cannot be downgraded: restore")
}
