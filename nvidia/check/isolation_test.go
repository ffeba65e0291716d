package check_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/cps-gpu/homelab/nvidia/check"
)

// TestIsolation: only the container that asks for one requests a GPU, by the name of the node's resource, and the
// one that asks for nothing has the default runtime.
func TestIsolation(t *testing.T) {
	for ask, want := range map[check.Ask]struct {
		limits, env int
		class       bool
	}{check.AskOne: {1, 0, true}, check.AskNothing: {0, 0, false}, check.AskRuntime: {0, 1, true}} {
		j := check.IsolationObjects("gpu1", ask, check.VerifyOptions{Namespace: "x", RunID: "r", Resource: "nvidia.com/mig-1g.5gb"})[1].(*batchv1.Job)
		pod := j.Spec.Template.Spec
		assert.Equal(t, check.IsolationName("gpu1", ask, "r"), j.Name)
		assert.Len(t, pod.Containers[0].Resources.Limits, want.limits, ask)
		assert.Len(t, pod.Containers[0].Env, want.env, ask)
		assert.Equal(t, want.class, pod.RuntimeClassName != nil, ask)
		assert.Equal(t, want.limits, ask.Want())
		for name, n := range pod.Containers[0].Resources.Limits {
			assert.Equal(t, "nvidia.com/mig-1g.5gb 1", string(name)+" "+n.String())
		}
	}
	n, err := check.ParseIsolation("sees|2\n")
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	for _, bad := range []string{"", "2", "sees|", "sees|-1", "sees|two", "sh: not found"} {
		_, err := check.ParseIsolation(bad)
		assert.Error(t, err, bad)
	}
}
