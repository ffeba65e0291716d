package distribution_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// An error keeps its words and its cause, and also is what it means.
func TestMeans(t *testing.T) {
	cause := errors.New("no token")
	err := distribution.Means(fmt.Errorf("read it: %w", cause), distribution.ErrNoCluster)
	require.EqualError(t, err, "read it: no token")
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, distribution.ErrNoCluster)
	require.NotErrorIs(t, err, distribution.ErrForeign)
	assert.NoError(t, distribution.Means(nil, distribution.ErrNoCluster))
}

func TestFacts(t *testing.T) {
	f := distribution.Facts{Step: "k", Server: "kd", Agent: "kd-agent"}
	assert.Equal(t, []string{"k/n", "kd", "kd-agent"}, []string{f.StepID("n"), f.Service(spec.Server), f.Service(spec.Agent)})
}
