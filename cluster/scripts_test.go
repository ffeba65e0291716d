package cluster_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/facts"
)

func TestScriptsPassShellcheck(t *testing.T) {
	facts.Program(t, "shellcheck", "shellcheck")
	scripts, err := filepath.Glob("internal/*/*.sh")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	out, err := exec.CommandContext(t.Context(), "shellcheck", append(scripts, "../internal/datadisk/disks.sh", "../kube/addon/weights.sh")...).CombinedOutput()
	assert.NoError(t, err, string(out))
}
