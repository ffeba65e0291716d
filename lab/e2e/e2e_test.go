package e2e

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
)

// TestFromNothingToGPUs is the README's main job and what follows from it.
func TestFromNothingToGPUs(t *testing.T) {
	u := newUser(t)
	_, talk := u.must(t, "cluster:up")
	assert.Contains(t, talk, labctl.Banner)
	assert.Contains(t, talk, "eight-a100", "the banner says which file is used")

	kubeconfig := strings.TrimSpace(first(u.must(t, "cluster:kubeconfig")))
	info, err := os.Stat(filepath.Join(u.dir, kubeconfig))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	t.Run("kubectl from another shell", func(t *testing.T) {
		kubectl := exec.CommandContext(t.Context(), filepath.Join(u.lab(), "bin", "labd"), "kubectl", "--kubeconfig="+kubeconfig, "get", "nodes")
		kubectl.Dir = u.dir
		out, err := kubectl.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, 7, strings.Count(string(out), " Ready "), "%s", out)
		assert.Equal(t, 7, strings.Count(string(out), "v1.36.5+k3s1"), "%s", out)
	})
	t.Run("every GPU computes", func(t *testing.T) {
		out, _ := u.must(t, "gpu:verify", "-json")
		uuids, nodes := map[string]bool{}, map[string]int{}
		for _, line := range results(t, out) {
			assert.True(t, line.Passed)
			assert.Contains(t, line.Name, "A100")
			uuids[line.UUID] = true
			nodes[line.Node]++
		}
		assert.Len(t, uuids, 8)
		assert.Equal(t, map[string]int{"wk-gpu1": 2, "wk-gpu2": 2, "wk-gpu3": 2, "wk-gpu4": 2}, nodes)
	})
	t.Run("again there is nothing to do", func(t *testing.T) {
		_, talk := u.must(t, "cluster:up")
		assert.Contains(t, talk, "Nothing to change")
		out, _ := u.must(t, "cluster:plan")
		assert.Contains(t, out, "Nothing to change")
		u.must(t, "cluster:status")
	})
	t.Run("a change changes just that", func(t *testing.T) {
		changed := strings.Replace(example(t), "homelab.example/pool: gpu", "homelab.example/pool: a100", 1)
		u.write(t, "cluster.yaml", changed+"\nnodes:\n  wk-gpu2: {memory: 96GiB}\n")
		out, _, code := u.run(t, "cluster:plan")
		assert.Equal(t, 2, code)
		assert.Contains(t, out, "needs a restart")
		assert.Equal(t, 1, strings.Count(out, "memory:"), out)
		assert.Equal(t, 4, strings.Count(out, "homelab.example/pool"), out)
		u.must(t, "cluster:up")
		u.must(t, "cluster:plan")
	})
	t.Run("a worker goes", func(t *testing.T) {
		u.write(t, "cluster.yaml", strings.Replace(strings.Replace(example(t), "count: 4\n    addresses: [10.0.0.21-10.0.0.24]", "count: 3\n    addresses: [10.0.0.21-10.0.0.23]", 1), "xx", "xx", 1))
		out, _, code := u.run(t, "cluster:plan")
		assert.Equal(t, 2, code)
		assert.Contains(t, out, "wk-gpu4")
		u.must(t, "cluster:up")
		vms, volumes, mappings := u.inventory(t)
		assert.NotContains(t, vms, "wk-gpu4")
		assert.NotContains(t, strings.Join(volumes, " "), "wk-gpu4")
		assert.NotContains(t, strings.Join(mappings, " "), "wk-gpu4")
		u.must(t, "cluster:plan")
	})
	t.Run("down leaves nothing of ours", func(t *testing.T) {
		_, _, code := u.run(t, "cluster:down")
		assert.Equal(t, 4, code, "with nobody to ask it refuses")
		u.must(t, "cluster:down", "-yes")
		vms, volumes, mappings := u.inventory(t)
		assert.Empty(t, vms)
		assert.Empty(t, mappings)
		for _, v := range volumes {
			assert.Regexp(t, `^vmdata:vm-10[04]-disk-\d$`, v, "only the disks of other people's VMs are left")
		}
	})
	assertNoSecrets(t, u)
}

// assertNoSecrets greps all that was ever printed.
func assertNoSecrets(t *testing.T, u *user) {
	t.Helper()
	for _, file := range []string{u.lab() + "/token", u.dir + "/.homelab/eight-a100/id_ed25519"} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); len(line) > 20 && !strings.HasPrefix(line, "-----") {
				assert.NotContains(t, u.said.String(), line)
			}
		}
	}
	assert.NotContains(t, u.said.String(), "K10", "a K3s token begins so")
}

// TestKillAndInterrupt kills ten runs at random moments, interrupts one, and then
// lets one finish.
func TestKillAndInterrupt(t *testing.T) {
	u := newUser(t)
	u.must(t, "lab:start")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		cmd, _, _ := u.command(t.Context(), "cluster:up")
		require.NoError(t, cmd.Start())
		after := time.Duration(500+random.IntN(5000)) * time.Millisecond
		select {
		case <-time.After(after):
		case <-t.Context().Done():
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		t.Logf("killed after %s", after)
	}
	t.Run("Ctrl-C returns within two seconds", func(t *testing.T) {
		u.must(t, "cluster:down", "-yes")
		cmd, _, errs := u.command(t.Context(), "cluster:up")
		require.NoError(t, cmd.Start())
		time.Sleep(3 * time.Second)
		begun := time.Now()
		require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		err := cmd.Wait()
		assert.Error(t, err, "%s", errs)
		assert.Less(t, time.Since(begun), 2*time.Second)
		assert.Contains(t, errs.String(), "run it again")
	})
	u.must(t, "cluster:up")
	vms, volumes, mappings := u.inventory(t)
	assert.Len(t, vms, 8, "seven nodes and a template: %v", vms)
	assert.Len(t, mappings, 4)
	isos := 0
	for _, v := range volumes {
		if strings.HasSuffix(v, ".iso") {
			isos++
		}
	}
	assert.Equal(t, 7, isos, "%v", volumes)
	u.must(t, "cluster:plan")
	out, _ := u.must(t, "gpu:verify", "-json")
	assert.Len(t, results(t, out), 8)
}

// result is one line of gpu:verify -json.
type result struct {
	Node, UUID, Name string
	Passed           bool
}

// results keeps of the JSON lines those that are about a GPU; events come before.
func results(t *testing.T, out string) []result {
	t.Helper()
	var all []result
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		var r result
		require.NoError(t, json.Unmarshal(s.Bytes(), &r), s.Text())
		if r.UUID != "" {
			all = append(all, r)
		}
	}
	return all
}

func first(a, _ string) string { return a }
