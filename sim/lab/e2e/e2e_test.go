package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// TestFromNothingToGPUs is the README's main job and what follows from it. Its parts
// are one life: they build on each other.
func TestFromNothingToGPUs(t *testing.T) {
	t.Parallel()
	onEither(t, 2, []labctl.Guests{{}, labtest.Real()}, fromNothingToGPUs)
}

// onEither runs a long life on some kinds of control planes, in turns: a run has at most one, and each comes once in so many.
func onEither(t *testing.T, turns int, kinds []labctl.Guests, life func(t *testing.T, kind labctl.Guests)) {
	t.Helper()
	mine := share.OneOf(t, turns, "control planes")
	for _, kind := range kinds {
		if mine.Next() {
			t.Run(plane(kind), func(t *testing.T) { life(t, kind) })
		}
	}
}

// plane names a kind of control planes.
func plane(kind labctl.Guests) string {
	return map[bool]string{true: "real", false: "simulated"}[kind.Kubernetes]
}

func fromNothingToGPUs(t *testing.T, kind labctl.Guests) {
	t.Parallel()
	u := newUserOf(t, kind)
	if !kind.Kubernetes { // a lab without a file is the default one
		u.must(t, "cluster:init", "-endpoint=lab", "-yes", "-out=proposed.yaml")
		u.must(t, "cluster:validate", "-spec=proposed.yaml")
	}
	_, talk := u.must(t, "cluster:up")
	assert.Contains(t, talk, kind.Banner())
	assert.Contains(t, talk, "eight-a100", "the banner says which file is used")
	t.Run("kubectl from another shell", u.kubectl)
	t.Run("every GPU computes", u.everyGPUComputes)
	if kind.Kubernetes { // TestPages does it on the simulated one
		t.Run("it is compared with the CNCF's requirements", u.conformance)
	}
	t.Run("again there is nothing to do", u.againNothing)
	t.Run("there is nothing to lose here", u.nothingToLose)
	t.Run("a change changes just that", u.changeJustThat)
	t.Run("a worker goes", u.workerGoes)
	t.Run("down leaves nothing of ours", u.downLeavesNothing)
	u.saidNoSecrets(t)
}

func (u *user) kubectl(t *testing.T) {
	out, _ := u.must(t, "cluster:kubeconfig")
	kubeconfig := strings.TrimSpace(out)
	info, err := os.Stat(filepath.Join(u.dir, kubeconfig))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	kubectl := exec.CommandContext(t.Context(), labtest.Binary(t, labtest.Real()), "kubectl", "--kubeconfig="+kubeconfig, "get", "nodes")
	kubectl.Dir = u.dir
	nodes, err := kubectl.CombinedOutput()
	require.NoError(t, err, "%s", nodes)
	assert.Equal(t, 7, strings.Count(string(nodes), " Ready "), "%s", nodes)
	assert.Equal(t, 7, strings.Count(string(nodes), "v1.36.5+k3s1"), "%s", nodes)
}

func (u *user) everyGPUComputes(t *testing.T) {
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
}

// conformance compares what pods see of GPUs, which is too much, and what the cluster's objects show.
func (u *user) conformance(t *testing.T) {
	said, _, code := u.run(t, "cluster:conformance", "-run")
	assert.Equal(t, 2, code, said)
	for requirement, result := range map[string]string{"driver_runtime_management": "passed", "secure_accelerator_access": "failed", "gang_scheduling": "failed"} {
		assert.Regexp(t, `(?m)^`+requirement+` +(MUST|SHOULD) +`+result+` `, said)
	}
}

func (u *user) againNothing(t *testing.T) {
	_, talk := u.must(t, "cluster:up")
	assert.Contains(t, talk, "Nothing to change")
	out, _ := u.must(t, "cluster:plan")
	assert.Contains(t, out, "Nothing to change")
	u.must(t, "cluster:status")
}

// nothingToLose removes all that is kept beside the file, and goes to another folder,
// which may not be written to.
func (u *user) nothingToLose(t *testing.T) {
	kept := filepath.Join(u.dir, ".homelab")
	require.NoError(t, os.RemoveAll(kept))
	out, _ := u.must(t, "cluster:plan")
	assert.Contains(t, out, "Nothing to change")
	assert.NoDirExists(t, kept, "a look writes nothing")
	u.must(t, "cluster:up")
	u.kubectl(t)

	elsewhere := u.elsewhere(t)
	require.NoError(t, os.Chmod(elsewhere.dir, 0o500))
	defer func() { assert.NoError(t, os.Chmod(elsewhere.dir, 0o700)) }()
	out, _ = elsewhere.must(t, "cluster:plan")
	assert.Contains(t, out, "Nothing to change")
	for _, look := range []string{"cluster:validate", "cluster:status", "gpu:list", "template:list"} {
		elsewhere.must(t, look)
	}
	checked, _, code := elsewhere.run(t, "host:check")
	assert.Contains(t, checked, "nothing wrong")
	assert.Zero(t, code)
	left, err := os.ReadDir(elsewhere.dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "the lab's folder and the file")
}

func (u *user) changeJustThat(t *testing.T) {
	changed := strings.Replace(bare(t), "homelab.example/pool: gpu", "homelab.example/pool: a100", 1)
	u.write(t, "cluster.yaml", changed+"\nnodes:\n  wk-gpu2: {memory: 96GiB}\n")
	out, _, code := u.run(t, "cluster:plan")
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "needs a restart")
	assert.Equal(t, 1, strings.Count(out, "memory:"), out)
	assert.Equal(t, 2, strings.Count(out, "homelab.example/pool: gpu → a100"), out)
	assert.Contains(t, out, "wk-gpu1, wk-gpu3, wk-gpu4", "what is the same is said once")
	assert.Contains(t, out, "9 to change, 50 up to date.")
	assert.Contains(t, out, "wk-gpu2 is stopped for 2 to 10 min: other memory\n")
	_, talk, code := u.run(t, "cluster:up")
	assert.Equal(t, 4, code, "with nobody to ask it stops no machine")
	assert.Contains(t, talk, "nothing was changed: there is no terminal to ask on: add -restart, or -yes")
	u.must(t, "cluster:up", "-restart")
	u.must(t, "cluster:plan")
}

func (u *user) workerGoes(t *testing.T) {
	u.write(t, "cluster.yaml", strings.Replace(bare(t),
		"count: 4\n    addresses: [10.0.0.21-10.0.0.24]", "count: 3\n    addresses: [10.0.0.21-10.0.0.23]", 1))
	out, _, code := u.run(t, "cluster:plan")
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "wk-gpu4 is destroyed: no longer in the file\n    with  disk scratch (")
	_, talk, code := u.run(t, "cluster:up", "-restart")
	assert.Equal(t, 4, code, "with nobody to ask it destroys no machine")
	assert.Contains(t, talk, "there is no terminal to ask on: add -destroy=wk-gpu4, or -yes")
	u.must(t, "cluster:up", "-restart", "-destroy=wk-gpu4")
	vms, volumes, mappings := u.inventory(t)
	assert.NotContains(t, vms, "wk-gpu4")
	assert.NotContains(t, strings.Join(volumes, " "), "wk-gpu4")
	assert.NotContains(t, strings.Join(mappings, " "), "wk-gpu4")
	u.must(t, "cluster:plan")
}

func (u *user) downLeavesNothing(t *testing.T) {
	_, _, code := u.run(t, "cluster:down")
	assert.Equal(t, 4, code, "with nobody to ask it refuses")
	u.must(t, "cluster:down", "-yes")
	vms, volumes, mappings := u.inventory(t)
	assert.Empty(t, vms)
	assert.Empty(t, mappings)
	for _, v := range volumes {
		assert.Regexp(t, `^vmdata:vm-10[04]-disk-\d$`, v, "only the disks of other people's VMs are left")
	}
}

// saidNoSecrets greps all that was ever printed.
func (u *user) saidNoSecrets(t *testing.T) {
	t.Helper()
	token, err := os.ReadFile(u.lab() + "/token")
	require.NoError(t, err)
	assert.NotContains(t, u.said.String(), strings.TrimSpace(string(token)))
	assert.NotContains(t, u.said.String(), "PRIVATE KEY")
	assert.NotContains(t, u.said.String(), "K10", "a K3s token begins so")
}

// TestKillAnywhere kills eight runs from nothing at random moments. Each is followed
// by a run that must bring about the same as if nothing had happened.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	onEither(t, 2, []labctl.Guests{labtest.Real(), {}}, killAnywhere)
}

func killAnywhere(t *testing.T, kind labctl.Guests) {
	t.Parallel()
	u := newUserOf(t, kind)
	u.fastLab(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	mine := share.Start(t, "runs killed")
	for range 8 {
		if mine.Next() {
			u.killed(t, time.Duration(200+random.IntN(6000))*time.Millisecond)
		}
	}
}

// killed kills a run from nothing after a while, and ends its cluster's life orderly.
func (u *user) killed(t *testing.T, after time.Duration) {
	t.Helper()
	cmd, _, _ := u.command(t.Context(), "cluster:up")
	require.NoError(t, cmd.Start())
	time.Sleep(after)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	t.Logf("killed after %s", after)
	u.must(t, "cluster:up")
	u.isWhole(t)
	u.must(t, "cluster:down", "-yes")
}

// isWhole checks that everything is there once, and nothing twice.
func (u *user) isWhole(t *testing.T) {
	t.Helper()
	vms, volumes, mappings := u.inventory(t)
	assert.Len(t, vms, 8, "seven nodes and a template: %v", vms)
	assert.Len(t, mappings, 4)
	isos, disks := 0, 0
	for _, v := range volumes {
		switch {
		case strings.HasSuffix(v, ".iso"):
			isos++
		case strings.HasPrefix(v, "vmdata:"):
			disks++
		}
	}
	assert.Equal(t, 7, isos, "%v", volumes)
	assert.Equal(t, 7*2+4+2+3, disks, "system and firmware disks, scratch disks, the template's, other people's: %v", volumes)
	u.must(t, "cluster:plan")
}

// It returns at once, which is long before what it waits for is there.
func TestInterruptReturnsAtOnce(t *testing.T) {
	t.Parallel()
	u := newUserOf(t, labctl.Guests{})
	u.must(t, "lab:start")
	for _, after := range []time.Duration{time.Second, 4 * time.Second} {
		cmd, _, errs := u.command(t.Context(), "cluster:up")
		speaks := &firstWord{Writer: errs, said: make(chan struct{})}
		cmd.Stderr = speaks
		require.NoError(t, cmd.Start())
		<-speaks.said
		time.Sleep(after)
		begun := time.Now()
		require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		assert.Error(t, cmd.Wait(), "%s", errs)
		assert.Less(t, time.Since(begun), 15*time.Second)
		assert.Contains(t, errs.String(), "run it again")
	}
	u.must(t, "cluster:up")
	u.isWhole(t)
	out, _ := u.must(t, "gpu:verify", "-json")
	assert.Len(t, results(t, out), 8)
}

// firstWord closes said when the first is written.
type firstWord struct {
	io.Writer

	once sync.Once
	said chan struct{}
}

func (w *firstWord) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.said) })
	return w.Writer.Write(p)
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
