package session

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// site is a simulated world in which commands are given one after the other, each
// as a process of its own would: nothing is remembered but the files.
type site struct {
	t          *testing.T
	sim        *pvesim.Sim
	kube       *kubesim.Sim
	dir        string
	toolkit    map[string]string // digests of NVIDIA's packages; nil: the real ones
	talk, data bytes.Buffer      // of the last command
	everything strings.Builder
}

func newSite(t *testing.T) *site {
	w := &site{t: t, kube: &kubesim.Sim{}, dir: t.TempDir()}
	w.sim = pvesim.New(pvesim.EightA100(), pvesim.Options{Kubernetes: w.kube})
	require.NoError(t, makeKey(filepath.Join(w.dir, "id_ed25519")))
	return w
}

// inSite runs a test in virtual time, in a site of its own.
func inSite(t *testing.T, test func(t *testing.T, w *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		defer w.close()
		test(t, w)
	})
}

func (w *site) close() {
	w.sim.Close()
	require.NoError(w.t, w.kube.Close())
}

// do gives one command.
func (w *site) do(yaml string, o Options, command func(*Session, context.Context) error) error {
	w.t.Helper()
	spec, err := cluster.Parse("cluster.yaml", []byte(yaml))
	require.NoError(w.t, err)
	return w.command(spec, o, command)
}

// command is do with a file that was read.
func (w *site) command(spec *spec.Spec, o Options, command func(*Session, context.Context) error) error {
	w.t.Helper()
	w.talk.Reset()
	w.data.Reset()
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(w.t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: w.sim.Client().Transport},
	})
	require.NoError(w.t, err)
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(w.t, err)
	c, err := cluster.New(spec, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: w.dir, ToolkitDigests: w.toolkit})
	require.NoError(w.t, err)
	s := &Session{
		Console: &console.Console{Talk: &w.talk, Data: &w.data, JSON: o.JSON, Redact: &secret.Redactor{}},
		opt:     o, Spec: spec, Cluster: c,
	}
	defer s.Close()
	err = command(s, w.t.Context())
	w.everything.WriteString(w.talk.String() + w.data.String())
	if err != nil {
		w.everything.WriteString(err.Error())
	}
	return err
}

func code(err error) int {
	if e, ok := err.(interface{ ExitStatus() int }); ok {
		return e.ExitStatus()
	}
	if err != nil {
		return 1
	}
	return 0
}

func TestLifeOfACluster(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		yaml := strings.ReplaceAll(string(examples.WithoutPlatform(examples.EightA100)), "size: 200GiB", "size: 1TiB") // of which a warning says that they do not fit

		// Before: everything is to be made.
		assert.Equal(t, pending, code(w.do(yaml, Options{}, Plan)))
		assert.Contains(t, w.data.String(), "+ wk-gpu1, wk-gpu2, wk-gpu3, wk-gpu4\n")
		assert.Contains(t, w.talk.String(), "warning: ")
		assert.Equal(t, pending, code(w.do(yaml, Options{}, Status)))
		assert.Contains(t, w.data.String(), "✗  cp1 ")

		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{}, Up)))
		assert.Empty(t, w.data.String())
		assert.Contains(t, w.talk.String(), "vm/wk-gpu4             done in ")
		assert.Contains(t, w.talk.String(), "go tool mage gpu:verify")
		assert.NotContains(t, w.talk.String(), "FAILED")

		// After: nothing.
		require.NoError(t, w.do(yaml, Options{}, Plan))
		assert.Regexp(t, `^Nothing to change: all \d+ steps are up to date.\n$`, w.data.String())
		require.NoError(t, w.do(yaml, Options{}, Status))
		assert.NotContains(t, w.data.String(), "✗")
		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{}, Up)))
		assert.Contains(t, w.talk.String(), "Nothing to change")
		require.NoError(t, w.do(yaml, Options{}, Kubeconfig))
		assert.FileExists(t, strings.TrimSpace(w.data.String()))

		w.gpus(yaml)
		w.change(yaml)
		w.down(yaml)
		_, token := w.sim.Token()
		assert.NotContains(t, w.everything.String(), token)
	})
}

// gpus looks at the cards and computes on them.
func (w *site) gpus(yaml string) {
	t := w.t
	require.NoError(t, w.do(yaml, Options{}, with(HostFlags{}, GPUList)))
	assert.Equal(t, 9, strings.Count(w.data.String(), "\n"))
	assert.Regexp(t, `pve1 +0000:41:00 +A100 PCIe 40GB +10de:20f1 +25 +- +vfio-pci +eight-a100_wk-gpu2 +\d+ wk-gpu2\n`, w.data.String())
	for line := range strings.Lines(w.data.String()) {
		assert.LessOrEqual(t, len(line), 100)
	}
	require.NoError(t, w.do(yaml, Options{JSON: true}, with(HostFlags{}, GPUList)))
	assert.Len(t, objects(t, w.data.Bytes()), 8)

	junit := filepath.Join(t.TempDir(), "gpu.xml")
	require.NoError(t, w.do(yaml, Options{}, with(GPUVerifyFlags{Level: "full", JUnit: junit}, GPUVerify)))
	assert.Equal(t, 9, strings.Count(w.data.String(), "passed"))
	assert.Contains(t, w.data.String(), "46 checks: 44 passed, 2 skipped\n")
	written, err := os.ReadFile(junit)
	require.NoError(t, err)
	assert.Equal(t, 46, strings.Count(string(written), "<testcase "))
	assert.Contains(t, w.talk.String(), "8 of 8 GPUs computed")
	assert.ErrorContains(t, w.do(yaml, Options{}, with(GPUVerifyFlags{Level: "most"}, GPUVerify)), "-level=most: write quick, full or burn")
	assert.ErrorContains(t, w.do(yaml, Options{}, with(GPUVerifyFlags{Burn: time.Hour}, GPUVerify)), "-burn=1h0m0s is the time of -level=burn")
	assert.ErrorContains(t, w.do(yaml, Options{}, with(GPUVerifyFlags{Level: "burn", Burn: -1}, GPUVerify)), "-burn=-1ns")
	require.NoError(t, w.do(yaml, Options{JSON: true}, with(GPUVerifyFlags{}, GPUVerify)))
	results := objects(t, w.data.Bytes())
	require.Len(t, results, 12, "one object for each GPU and each node, and no events between them")
	for i, r := range results {
		assert.Equal(t, true, r["passed"])
		assert.Equal(t, "quick", r["level"])
		assert.Equal(t, i < 8, r["uuid"] != nil)
		assert.Equal(t, i >= 8, r["index"] == -1.0)
	}
	assert.Equal(t, []any{"compute", "pcie", "ecc", "clocks"}, checksOf(results[0]))
	assert.Equal(t, []any{"xid"}, checksOf(results[8]))
}

// checksOf are the names of the checks of a line of gpu:verify -json.
func checksOf(line map[string]any) (out []any) {
	all, _ := line["checks"].([]any)
	for _, c := range all {
		one, _ := c.(map[string]any)
		out = append(out, one["check"])
	}
	return out
}

// change makes a worker smaller, and removes another.
func (w *site) change(yaml string) {
	t := w.t
	smaller := strings.Replace(yaml, "    memory: 128GiB\n", "    memory: 96GiB\n", 1)
	require.NotEqual(t, yaml, smaller)
	assert.Equal(t, pending, code(w.do(smaller, Options{}, Plan)))
	assert.Contains(t, w.data.String(), "memory: 128GiB → 96GiB, needs a restart")
	assert.Contains(t, w.data.String(), "wk-gpu1, wk-gpu2, wk-gpu3, wk-gpu4 are stopped for 2 to 10 min each: other memory\n")

	fewer := strings.NewReplacer("count: 4\n", "count: 3\n", "10.0.0.21-10.0.0.24", "10.0.0.21-10.0.0.23").Replace(yaml)
	require.NotEqual(t, yaml, fewer)
	assert.Equal(t, pending, code(w.do(fewer, Options{}, Plan)))
	assert.Contains(t, w.data.String(), "- removed")
	assert.Contains(t, w.data.String(), "no longer in the file")
	require.NoError(t, w.do(fewer, Options{JSON: true}, with(UpFlags{Destroy: "wk-gpu4"}, Up)))
	kinds := map[any]int{}
	for _, e := range objects(t, w.data.Bytes()) {
		kinds[e["kind"]]++
	}
	assert.Equal(t, 2, kinds["changed"], "the machine, and what was left of it: %v", kinds)
	require.NoError(t, w.do(fewer, Options{}, Plan))
}

// down is asked about first, and then leaves nothing.
func (w *site) down(yaml string) {
	t := w.t
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	var err error
	os.Stdin, err = os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = os.Stdin.Close() }()
	err = w.do(yaml, Options{}, with(DownFlags{}, Down))
	assert.Equal(t, refused, code(err))
	assert.ErrorContains(t, err, "-yes")
	assert.Contains(t, w.data.String(), "- cp1      vm  VM ")

	require.NoError(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down)))
	assert.Contains(t, w.talk.String(), "Gone.\n")
	require.NoError(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down)))
	assert.Contains(t, w.talk.String(), "eight-a100 has nothing left to destroy.")
}

func TestTimeIsOver(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		err := w.do(string(examples.WithoutPlatform(examples.EightA100)), Options{}, func(s *Session, ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return Up(s, ctx, UpFlags{})
		})
		assert.ErrorContains(t, err, "-timeout")
		assert.Equal(t, 1, code(err))
		err = w.do(string(examples.WithoutPlatform(examples.EightA100)), Options{}, func(s *Session, ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(20*time.Second, cancel)
			return Up(s, ctx, UpFlags{})
		})
		assert.ErrorContains(t, err, "interrupted")
		assert.Equal(t, 130, code(err))
		assert.Contains(t, w.talk.String(), "stopped")
	})
}

func TestFailureIsToldAndNamed(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		w.sim.Fail(pvesim.Rule{Path: `.*/upload`, Times: -1, Status: 500, Message: "no space left on device"})
		err := w.do(string(examples.WithoutPlatform(examples.EightA100)), Options{}, with(UpFlags{}, Up))
		assert.Equal(t, 1, code(err))
		assert.ErrorContains(t, err, "seed/cp1")
		assert.ErrorContains(t, err, "could not start")
		assert.Contains(t, w.talk.String(), "FAILED: ")
		assert.Contains(t, w.talk.String(), "not started, because a step they need failed: ")
		err = w.do(string(examples.WithoutPlatform(examples.EightA100)), Options{JSON: true}, with(UpFlags{}, Up))
		assert.Equal(t, 1, code(err))
		assert.Contains(t, w.talk.String(), "✗ seed/cp1\n")
	})
}

func objects(t *testing.T, data []byte) (out []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(data) {
		var o map[string]any
		require.NoError(t, json.Unmarshal(line, &o), "%s", line)
		out = append(out, o)
	}
	return out
}

// The NFS server stays when the cluster goes, and is said to; its name destroys it too.
func TestDownKeepsTheFileServer(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		folder, err := filepath.Abs("../../sim/lab/charts")
		require.NoError(t, err)
		yaml := `
name: files
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}
storage: {nfs: {vm: {address: 10.0.0.30, size: 100GiB}}}
charts: {offline: true, folder: ` + folder + "}\n"
		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{}, Up)))

		require.NoError(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down)))
		assert.Regexp(t, `This keeps the NFS server files-nfs \(VM \d+ on pve1\) with its data. -also=files-nfs destroys it too.\n`, w.talk.String())
		assert.Contains(t, w.talk.String(), "What is stored elsewhere stays: volumes in /export on 10.0.0.30.")

		assert.ErrorContains(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}, Also: "cp1"}, Down)), "cp1: no machine of files with that name keeps data")
		require.NoError(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}, Also: "files-nfs"}, Down)))
		assert.NotContains(t, w.talk.String(), "keeps")
		assert.NotContains(t, w.talk.String(), "elsewhere")
		require.NoError(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down)))
		assert.Contains(t, w.talk.String(), "files has nothing left to destroy.")
	})
}
