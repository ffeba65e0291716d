package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// fileOf is what a file says.
func fileOf(t *testing.T, text string) *spec.Spec {
	t.Helper()
	s, err := Parse("cluster.yaml", []byte(text))
	require.NoError(t, err)
	return s
}
