package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// operatorFile has NVIDIA's GPU operator, which brings the driver too.
const operatorFile = `
name: ops
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 1, cores: 8, memory: 32GiB}
nvidia: {stack: operator, driver: {mode: operator}}
`

// TestGPUOperator is a cluster whose GPUs come from the operator: from one line in the file to a
// card that computes, and to a card that four pods share.
func TestGPUOperator(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write(t, "cluster.yaml", operatorFile)
	u.must(t, "cluster:up")
	out, _ := u.must(t, "gpu:verify", "-json")
	all := results(t, out)
	require.Len(t, all, 1)
	assert.True(t, all[0].Passed)
	u.againNothing(t)
	u.allocatable(t, "1")

	u.write(t, "cluster.yaml", strings.Replace(operatorFile, "driver:", "sharing: {strategy: time-slicing, replicas: 4}, driver:", 1))
	u.must(t, "cluster:up")
	u.allocatable(t, "4")
}
