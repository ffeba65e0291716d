package clusterfile_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// What a file leaves out is filled in, whatever the file says.
func TestAReadSpecHasNoUnfilledFields(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		s, err := clusterfile.Load(file)
		require.NoError(t, err, file)
		assert.Empty(t, s.Unfilled(), file)
	}
	gpus := &spec.Spec{Name: "mine", Nodes: []spec.Node{{Name: "wk1", Role: spec.Agent, GPUs: spec.GPURequest{Count: 2}}}}
	assert.Subset(t, gpus.Unfilled(), []string{"NVIDIA.Stack", "NVIDIA.DriverMode", "Nodes: one with Role: spec.Server", "Nodes[0].MAC", "Nodes[0].GPUs.Sharing.Strategy"})
}
