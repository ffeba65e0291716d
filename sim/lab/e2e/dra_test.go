package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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

// draQueues adds a hub whose servers wait in a queue, which a namespace for Jobs shares.
const draQueues = `
tls: self-signed
hub:
  hostname: hub.dra.example
  auth: {kind: native, admins: [teacher]}
  profiles: {gpu: {cpu: 2, memory: 4GiB, gpus: 1}}
queues: {class: {gpus: 2, namespaces: [jupyterhub, course]}}
`

// twoGPUs is a Job for all GPUs of the queue.
const twoGPUs = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "course"},
  "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
    {"name": "train", "image": "busybox", "command": ["sleep", "600"], "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}}}`

// TestQueuesByDRA is a server of the hub and a Job that share a queue whose GPUs are given out by DRA: both
// request nvidia.com/gpu, the queue counts that, and the scheduler makes their claims.
func TestQueuesByDRA(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write(t, "cluster.yaml", draFile+draQueues)
	u.must(t, "cluster:up")
	u.againNothing(t)
	u.write(t, "train.json", twoGPUs)
	claims := func(namespace string) string {
		return u.asKubectl(t, "get", "resourceclaims", "-n", namespace, "-o", "jsonpath={range .items[*]}{.status.reservedFor[*].name}:{.status.allocation.devices.results[*].driver} {end}")
	}
	u.hubOpen(t, func(address string) {
		notebook(t, address, "any", "gpu", func() {
			assert.Equal(t, "jupyter-student:gpu.nvidia.com ", claims("jupyterhub"))
			u.asKubectl(t, "create", "-f", "train.json")
			u.eventually(t, "the Job waits for the server's GPU", func() bool {
				return strings.Contains(u.asKubectl(t, "get", "workloads", "-n", "course", "-o", "yaml"), "insufficient unused quota for nvidia.com/gpu in flavor homelab, 1 more needed")
			})
			assert.Empty(t, claims("course"))
		})
	})
	u.eventually(t, "the Job has both GPUs", func() bool {
		return strings.HasSuffix(claims("course"), ":gpu.nvidia.com gpu.nvidia.com ")
	})
	assert.Equal(t, "Running", u.asKubectl(t, "get", "pods", "-n", "course", "-o", "jsonpath={.items[*].status.phase}"))

	u.write(t, "cluster.yaml", strings.Replace(draFile, "stack: dra", "stack: device-plugin", 1)+draQueues)
	_, said, code := u.run(t, "cluster:up", "-destroy=dra-driver")
	assert.NotZero(t, code)
	assert.Contains(t, said, "nvidia.stack changes, and GPUs are in use by course/train-")
	u.asKubectl(t, "delete", "-f", "train.json")
	u.must(t, "cluster:up", "-destroy=dra-driver")
	u.againNothing(t)
	u.hubOpen(t, func(address string) { notebook(t, address, "any", "gpu", nil) })
}

// hubOpen is at the hub while hub:open runs.
func (u *user) hubOpen(t *testing.T, visit func(address string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd, _, said := u.command(ctx, "hub:open")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address, err := bufio.NewReader(out).ReadString('\n')
	if assert.NoError(t, err, "%s", said) {
		visit(strings.TrimSpace(address))
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "%s", said)
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
