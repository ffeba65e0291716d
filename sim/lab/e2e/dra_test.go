package e2e

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// draFile gives pods their GPUs by DRA: those of a hub and of Jobs, which wait for each other in one queue.
const draFile = `
name: dra
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 2, cores: 8, memory: 32GiB}
nvidia: {stack: dra}
tls: self-signed
hub: {hostname: hub.dra.example, auth: {kind: native, admins: [teacher]}, profiles: {gpu: {cpu: 2, memory: 4GiB, gpus: 1}}}
queues: {class: {gpus: 2, namespaces: [jupyterhub, course]}}
`

// twoGPUs is a Job for all GPUs of the queue, for longer than the test takes: the clock of simulated pods is ten times as fast.
const twoGPUs = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "course"},
  "spec": {"template": {"spec": {"restartPolicy": "Never", "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "containers": [
    {"name": "train", "image": "busybox", "command": ["sleep", "36000"], "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}}}`

// TestDRA is a cluster whose GPUs pods get by DRA, and then by the device plugin.
func TestDRA(t *testing.T) {
	t.Parallel()
	onEither(t, 2, []labctl.Guests{{}, labtest.Real()}, byDRA)
}

func byDRA(t *testing.T, kind labctl.Guests) {
	t.Parallel()
	u := newUserOf(t, kind)
	u.write(t, "cluster.yaml", strings.Replace(draFile, "dra}", "dra, sharing: {strategy: time-slicing, replicas: 4}}", 1))
	_, said, code := u.run(t, "cluster:validate")
	assert.Equal(t, 3, code)
	assert.Contains(t, said, "by DRA a pod that requests nvidia.com/gpu has a whole card")
	u.write(t, "cluster.yaml", draFile)
	u.planned(t, "dra-driver")
	u.must(t, "cluster:up")
	u.againNothing(t)
	u.allocatable(t, "")
	out, _ := u.must(t, "gpu:verify", "-json")
	for _, r := range results(t, out) {
		assert.True(t, r.Passed)
	}
	out, _, _ = u.run(t, "cluster:status")
	assert.Contains(t, out, "0/2")
	t.Run("a notebook and a Job share them", u.sharesByQueue)

	u.write(t, "cluster.yaml", strings.Replace(draFile, "stack: dra", "stack: device-plugin", 1))
	u.planned(t, "dra-driver")
	u.must(t, "cluster:up", "-destroy=dra-driver")
	u.againNothing(t)
	u.allocatable(t, "2")
	u.eventually(t, "nothing of DRA is left", func() bool {
		return u.asKubectl(t, "get", "deviceclasses,resourceslices,resourceclaims", "--all-namespaces", "-o", "jsonpath={.items[*].metadata.name}") == ""
	})
}

// sharesByQueue is a notebook that waits for the GPUs of a Job. Both request nvidia.com/gpu: the queue counts that,
// and the scheduler makes their claims.
func (u *user) sharesByQueue(t *testing.T) {
	claimed := func(namespace string) string {
		return u.asKubectl(t, "get", "resourceclaims", "-n", namespace, "-o", "jsonpath={.items[*].status.allocation.devices.results[*].driver}")
	}
	u.write(t, "train.json", twoGPUs)
	u.asKubectl(t, "create", "-f", "train.json")
	u.eventually(t, "the Job has both GPUs", func() bool { return claimed("course") == "gpu.nvidia.com gpu.nvidia.com" })

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	notebook, said, talk := u.command(ctx, "hub:verify")
	require.NoError(t, notebook.Start())
	u.eventually(t, "the notebook waits for the Job's GPUs", func() bool {
		return strings.Contains(u.asKubectl(t, "get", "workloads", "-n", "jupyterhub", "-o", "jsonpath={.items[*].status.conditions[*].message}"), "insufficient unused quota for nvidia.com/gpu in flavor homelab, 1 more needed")
	})
	assert.Empty(t, claimed("jupyterhub"))
	u.asKubectl(t, "delete", "-f", "train.json")
	require.NoError(t, notebook.Wait(), "%s%s", said, talk)
}

// planned: the plan has something to do, with this part too.
func (u *user) planned(t *testing.T, part string) {
	t.Helper()
	plan, _, code := u.run(t, "cluster:plan")
	assert.Equal(t, 2, code, plan)
	assert.Contains(t, plan, part)
}

// asKubectl is what kubectl prints to the cluster's administrator.
func (u *user) asKubectl(t *testing.T, args ...string) string {
	t.Helper()
	if u.kubectlWords == nil {
		out, _ := u.must(t, "cluster:kubeconfig")
		u.kubectlWords = []string{labtest.Binary(t, labtest.Real()), "kubectl", "--kubeconfig=" + strings.TrimSpace(out)}
	}
	words := slices.Concat(u.kubectlWords, args)
	kubectl := exec.CommandContext(t.Context(), words[0], words[1:]...) //nolint:gosec // no words of others
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
