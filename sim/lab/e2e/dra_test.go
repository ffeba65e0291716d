package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// draFile gives pods their GPUs by DRA.
const draFile = `
name: dra
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 2, cores: 8, memory: 32GiB}
nvidia: {stack: dra}
`

// TestDRA is a cluster whose GPUs pods get by DRA, and then by the device plugin.
func TestDRA(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write(t, "cluster.yaml", strings.Replace(draFile, "dra}", "dra, sharing: {strategy: time-slicing, replicas: 4}}", 1))
	_, said, code := u.run(t, "cluster:validate")
	assert.Equal(t, 3, code)
	assert.Contains(t, said, "by DRA a pod that requests nvidia.com/gpu has a whole card")
	u.write(t, "cluster.yaml", draFile)
	u.must(t, "cluster:up")
	u.againNothing(t)
	u.allocatable(t, "")
	out, _ := u.must(t, "gpu:verify", "-json")
	for _, r := range results(t, out) {
		assert.True(t, r.Passed)
	}
	out, _, _ = u.run(t, "cluster:status")
	assert.Contains(t, out, "0/2")

	u.write(t, "cluster.yaml", strings.Replace(draFile, "stack: dra", "stack: device-plugin", 1))
	u.must(t, "cluster:up", "-destroy=dra-driver")
	u.againNothing(t)
	u.allocatable(t, "2")
}

// asKubectl is what kubectl prints to the cluster's administrator.
func (u *user) asKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := u.must(t, "cluster:kubeconfig")
	kubectl := exec.CommandContext(t.Context(), labtest.Binary(t, labtest.Real()), append([]string{"kubectl", "--kubeconfig=" + strings.TrimSpace(out)}, args...)...) //nolint:gosec // no words of others
	kubectl.Dir = u.dir
	have, err := kubectl.CombinedOutput()
	require.NoError(t, err, "%s", have)
	return string(have)
}

// allocatable compares what the only node with cards offers.
func (u *user) allocatable(t *testing.T, want string) {
	t.Helper()
	assert.Equal(t, want, u.asKubectl(t, "get", "node", "-l", "nvidia.com/gpu.present=true", "-o", `jsonpath={.items[0].status.allocatable.nvidia\.com/gpu}`))
}
