package results

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/secret"
)

var update = flag.Bool("update", false, "write the outputs into docs/verify.md")

const uuid = "GPU-5c8ad2b1-7d42-41bb-b5a4-3b0e5f7c1a90"

// verifiedOf is a run on one GPU, with the speeds of its memory and of the node's scratch disk.
func verifiedOf(driver string, memory, scratch float64, more ...check.Check) *Results {
	checks := []check.Check{
		{Node: "wk-gpu1", GPU: 0, UUID: uuid, Name: check.Compute, Verdict: check.Passed},
		{Node: "wk-gpu1", GPU: 0, UUID: uuid, Name: "bandwidth", Verdict: check.Passed, Measures: []check.Measure{{Name: "memory bandwidth", Value: memory, Unit: "GB/s"}}},
		{Node: "wk-gpu1", GPU: check.WholeNode, Name: check.Scratch, Verdict: check.Passed, Detail: "class scratch: 128 MiB written and read back",
			Measures: []check.Measure{{Name: "scratch write", Value: scratch, Unit: "MB/s"}}},
	}
	one := cluster.GPUResult{Node: "wk-gpu1", VerifyResult: check.VerifyResult{UUID: uuid, Name: "NVIDIA A100-PCIE-40GB", Driver: driver, Memory: 40 << 30, Passed: true}}
	return New("full", false, []cluster.GPUResult{one}, append(checks, more...))
}

// What is slower than in the month before is said, with the driver that changed in between, and
// what is wrong first.
func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), history.File)
		for range 4 {
			require.NoError(t, verifiedOf("575.57.08", 1391, 812).Remember(file))
			time.Sleep(24 * time.Hour)
		}
		v := verifiedOf("580.95.05", 1214, 31,
			check.Check{Node: "wk-gpu1", GPU: 0, UUID: uuid, Name: check.PCIe, Verdict: check.Warning, Detail: "x8, and the card can use x16: another slot, a riser or a bad contact"},
			check.Check{Node: "wk-gpu1", GPU: check.WholeNode, Name: check.Home, Verdict: check.Failed, Detail: "class nfs: the pod ended with exit status 1: dd: error writing '/probe/data': No space left on device"})
		require.NoError(t, v.Remember(file))
		var data bytes.Buffer
		require.NoError(t, v.Print(&console.Console{Talk: &data, Data: &data, Redact: &secret.Redactor{}}))
		assert.Equal(t, strings.TrimPrefix(`
NODE     GPU  MODEL                  MEMORY  DRIVER     UUID                                      RESULT
wk-gpu1  0    NVIDIA A100-PCIE-40GB  40GiB   580.95.05  GPU-5c8ad2b1-7d42-41bb-b5a4-3b0e5f7c1a90  passed; driver 575.57.08 on 2000-01-04
`, "\n"), data.String()[:strings.Index(data.String(), "✗")])

		const since = "of 4 runs since 2000-01-01"
		assert.Regexp(t, `(?s)✗ home  wk-gpu1.*! pcie .*! slower  wk-gpu1 GPU 0\n    memory bandwidth 1214 GB/s is slower than last month: median 1391 GB/s `+since+
			` \(-13 %\), driver 575.57.08 until 2000-01-04\n.*! slower  wk-gpu1\n    scratch write 31.0 MB/s.*! worse  wk-gpu1\n    it passed on 2000-01-04\n`+
			`5 checks: 3 passed, 1 failed, 1 with a warning; 2 measures slower than before\n$`, data.String())

		pages.Compare(t, "docs/verify.md", "slower", data.String(), *update)

		data.Reset()
		require.NoError(t, v.Print(&console.Console{Talk: &data, Data: &data, JSON: true, Redact: &secret.Redactor{}}))
		pages.Compare(t, "docs/verify.md", "json", data.String(), *update)
		lines := strings.Split(strings.TrimSpace(data.String()), "\n")
		require.Len(t, lines, 2)
		var gpu, node map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[0]), &gpu))
		require.NoError(t, json.Unmarshal([]byte(lines[1]), &node))
		assert.Equal(t, []string{"checks", "driver", "index", "level", "memory", "name", "node", "passed", "remarks", "uuid"}, slices.Sorted(maps.Keys(gpu)))
		assert.Equal(t, []string{"checks", "detail", "driver", "index", "level", "node", "passed", "remarks"}, slices.Sorted(maps.Keys(node)))
		assert.InDelta(t, -1, node["index"], 0)
		assert.Equal(t, "home: class nfs: the pod ended with exit status 1: dd: error writing '/probe/data': No space left on device", node["detail"])
	})
}

// What the lab's simulated GPUs did says so, as data and to a CI system, and is not compared with what cards did.
func TestVerifyInTheLab(t *testing.T) {
	past := filepath.Join(t.TempDir(), history.File)
	require.NoError(t, verifiedOf("575.57.08", 1391, 812).Remember(past))
	for _, lab := range []bool{true, false} {
		one := cluster.GPUResult{Node: "wk-gpu1", VerifyResult: check.VerifyResult{UUID: uuid, Driver: "580.95.05", Passed: true}}
		v := New("full", lab, []cluster.GPUResult{one}, []check.Check{{Node: "wk-gpu1", GPU: check.WholeNode, Name: check.Xid, Verdict: check.Passed}})
		require.NoError(t, v.Remember(past))
		var data bytes.Buffer
		require.NoError(t, v.Print(&console.Console{Talk: &data, Data: &data, JSON: true, Redact: &secret.Redactor{}}))
		assert.Equal(t, map[bool]int{true: 2}[lab], strings.Count(data.String(), `"lab":true`), "the GPU, and the node")
		assert.Equal(t, !lab, strings.Contains(data.String(), "575.57.08"), "a remark about an earlier run")

		file := filepath.Join(t.TempDir(), "gpu.xml")
		require.NoError(t, v.JUnit(&console.Console{}, file, "ml"))
		junit, err := os.ReadFile(file) //nolint:gosec // of this test
		require.NoError(t, err)
		assert.Contains(t, string(junit), map[bool]string{true: `<testsuite name="gpu:verify ml (lab: simulated GPUs)" `, false: `<testsuite name="gpu:verify ml" `}[lab])
	}
}

// A GPU that reported no result is a matter of its node.
func TestVerifyOfASilentNode(t *testing.T) {
	v := New("quick", false, nil, []check.Check{
		{Node: "wk-gpu1", GPU: check.WholeNode, Name: check.Compute, Verdict: check.Failed, Detail: "no GPU of this node reported a result"},
		{Node: "wk-gpu1", GPU: 0, UUID: uuid, Name: check.PCIe, Verdict: check.Passed},
	})
	var data bytes.Buffer
	require.NoError(t, v.Print(&console.Console{Talk: &data, Data: &data, Redact: &secret.Redactor{}}))
	assert.Equal(t, "✗ compute  wk-gpu1\n    no GPU of this node reported a result\n2 checks: 1 passed, 1 failed\n", data.String())
}
