package cluster_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// verify runs GPUVerify.
func (w *world) verify(t testing.TB, spec *spec.Spec) ([]cluster.GPUResult, *converge.Report, error) {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	g, v := c.GPUVerify(cluster.VerifyQuick, 0)
	report, err := g.Run(t.Context(), w.listen(t))
	require.NoError(t, v.Clean(t.Context()))
	assert.Empty(t, w.kube.Clusters()[0].Names("jobs.batch"), "the Jobs are cleaned")
	return v.Results(), report, err
}

// ask runs a program in a guest, as root.
func ask(t testing.TB, m *guest.Machine, args ...string) string {
	t.Helper()
	pid, err := m.AgentExec(args, nil)
	require.NoError(t, err)
	for {
		status, err := m.AgentStatus(pid)
		require.NoError(t, err)
		if status.Exited {
			require.Zero(t, status.ExitCode, "%s", status.Err)
			return string(status.Out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestVerifyEightGPUs(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		results, report, err := w.verify(t, spec)
		require.NoError(t, err)
		assert.Equal(t, 4, report.Count(converge.Changed))

		var want []string
		for _, n := range spec.GPUNodes() {
			list, err := csv.NewReader(bytes.NewBufferString(ask(t, w.guests()[n.Name],
				"nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"))).ReadAll()
			require.NoError(t, err)
			for _, gpu := range list {
				want = append(want, fmt.Sprintln(n.Name, gpu))
			}
		}
		var got []string
		seen := map[string]bool{}
		for _, r := range results {
			got = append(got, fmt.Sprintln(r.Node, []string{fmt.Sprint(r.Index), " " + r.UUID, " " + r.Name}))
			seen[r.UUID] = true
			assert.True(t, r.Passed)
			assert.Equal(t, "NVIDIA A100-PCIE-40GB", r.Name)
			assert.EqualValues(t, 40960<<20, r.Memory)
			assert.NotEmpty(t, r.Driver)
		}
		assert.Equal(t, want, got)
		assert.Len(t, seen, 8)
		assert.Empty(t, w.plan(t, spec), "a verification leaves nothing")
	})
}

// What nobody has computes; what somebody has is skipped at once, and whose it is gets said.
func TestVerifyOfGPUsInUse(t *testing.T) {
	for name, tc := range map[string]struct {
		gpus      int64
		meanwhile bool // they are taken after the free ones were counted
		computed  int
	}{"one of two": {1, false, 7}, "both": {2, false, 6}, "one, taken meanwhile": {1, true, 7}, "both, taken meanwhile": {2, true, 6}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				user := lodger("notebook", "wk-gpu2", tc.gpus)
				user.Spec.Template.Annotations = map[string]string{"hub.jupyter.org/username": "ann"}
				if !tc.meanwhile {
					w.moveIn(t, user)
				}
				c := w.cluster(t, spec)
				defer c.Close()
				g, v := c.GPUVerify(cluster.VerifyQuick, 0)
				listen, client, begin := w.listen(t), w.api(t), time.Now()
				_, err := g.Run(t.Context(), func(e converge.Event) {
					if listen(e); tc.meanwhile && e.Step == "verify/wk-gpu2" && e.Kind == converge.Acting {
						_, err := client.Apply(t.Context(), user)
						assert.NoError(t, err)
					}
				})
				require.NoError(t, err)
				assert.Less(t, time.Since(begin), time.Minute)
				assert.Len(t, v.Results(), tc.computed)
				var skipped []check.Check
				for _, c := range v.Checks() {
					if c.Name == check.Compute && c.Verdict != check.Passed {
						skipped = append(skipped, c)
					}
				}
				require.Len(t, skipped, 1)
				assert.Equal(t, "wk-gpu2", skipped[0].Node)
				assert.Equal(t, check.Skipped, skipped[0].Verdict)
				assert.Regexp(t, map[int64]string{1: "^1 is", 2: "^2 are"}[tc.gpus]+` in use by default/notebook-\S+, not tested: wait until it ends, or ask ann to stop it in the hub, then verify again$`, skipped[0].Detail)
				require.NoError(t, v.Clean(t.Context()))
				assert.Empty(t, w.kube.Clusters()[0].Names("jobs.batch"), "the Jobs are cleaned")
			})
		})
	}
}

// A drained node takes no Job: that is said at once, and the others compute.
func TestVerifyOfADrainedNode(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		require.NoError(t, w.verb(t, spec, drainState("wk-gpu2")))
		begin := time.Now()
		results, _, err := w.verify(t, spec)
		assert.EqualError(t, err, "verify/wk-gpu2: wk-gpu2 is drained and gets no pods\n  run homelab node:uncordon -node=wk-gpu2, then verify again")
		assert.Len(t, results, 6)
		assert.Less(t, time.Since(begin), time.Minute)
	})
}

// A driver that broke after up fails the verification of its node, in one message.
func TestVerifyOfABrokenDriver(t *testing.T) {
	for name, tc := range map[string]struct {
		faults guest.Faults
		reboot bool
		want   string
	}{
		"no kernel runs": {guest.Faults{CUDAFails: true}, false,
			`^verify/wk-gpu3: GPU 0 \(NVIDIA A100-PCIE-40GB, GPU-[-0-9a-f]+\) of wk-gpu3 failed: .*Failed to launch vectorAdd kernel \(error code unspecified launch failure\)!
GPU 1 \(NVIDIA A100-PCIE-40GB, GPU-[-0-9a-f]+\) of wk-gpu3 failed: .*
the kernel's log of wk-gpu3: Xid 31 of GPU 0000:[0-9a-f]+:00 \(application\): a program used a wrong address in the GPU's memory: .*`},
		"it does not load any more": {guest.Faults{DriverFailsToLoad: true}, true,
			`^facts/wk-gpu3: wk-gpu3: report: NVIDIA's kernel module is not loaded: .*
wk-gpu3: xid: GPU 0000:01:00.0 \(machine\): the driver could not initialize the GPU: .*
wk-gpu3: xid: GPU 0000:02:00.0 .*
allocatable/wk-gpu3: not there after 5m: GPUs: 0 → 2 allocatable \[driver, container toolkit and device plugin must all be in place\]\n  patience: 2 in .*$`},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				w.sim.SetGuestFaults(w.vm(t, "wk-gpu3").ID, tc.faults)
				if tc.reboot {
					_, err := w.guests()["wk-gpu3"].AgentExec([]string{"systemctl", "reboot"}, nil)
					require.NoError(t, err)
					time.Sleep(2 * time.Minute)
				}
				results, report, err := w.verify(t, spec)
				require.Error(t, err)
				assert.Regexp(t, tc.want, err.Error())
				assert.Equal(t, 1+count(tc.reboot), report.Count(converge.FailedStep), "nvidia-smi fails on the node too if the driver is not loaded")
				passed := 0
				for _, r := range results {
					assert.Equal(t, r.Node != "wk-gpu3", r.Passed)
					passed += count(r.Passed)
				}
				assert.Equal(t, 6, passed)
			})
		})
	}
}
