package check_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// real is the report of two A100, the second with errors and bad rows.
func real(t *testing.T) nvidia.DriverState {
	t.Helper()
	text, err := os.ReadFile("../testdata/a100.xml")
	require.NoError(t, err)
	smi, err := nvidia.ParseSMI(text)
	require.NoError(t, err)
	return nvidia.DriverState{SMI: smi}
}

func of(all []check.Check, gpu int, name string) check.Check {
	for _, c := range all {
		if c.GPU == gpu && c.Name == name {
			return c
		}
	}
	return check.Check{}
}

func TestFacts(t *testing.T) {
	s := real(t)
	all := check.Facts("gpu1", s)
	require.Len(t, all, 7)
	for _, name := range []string{check.PCIe, check.ECC, check.Clocks} {
		assert.Equal(t, check.Passed, of(all, 0, name).Verdict, name)
	}
	assert.Equal(t, "x16, generation 4", of(all, 0, check.PCIe).Detail)
	assert.Equal(t, check.Failed, of(all, 1, check.ECC).Verdict)

	s.SMI.GPUs[1].RowsFailing = false
	assert.Contains(t, of(check.Facts("gpu1", s), 1, check.ECC).Detail, "3 uncorrectable memory errors")
	s.SMI.GPUs[0].Link.Width = 8
	assert.Equal(t, "x8, and the card can use x16: another slot, a riser or a bad contact", of(check.Facts("gpu1", s), 0, check.PCIe).Detail)
	s.SMI.GPUs[0].Link = nvidia.PCIeLink{}
	assert.Equal(t, check.Skipped, of(check.Facts("gpu1", s), 0, check.PCIe).Verdict)
	s.SMI.GPUs[0].Slowed = []string{"heat", "power brake"}
	assert.Contains(t, of(check.Facts("gpu1", s), 0, check.Clocks).Detail, "slowed by heat and power brake at 31 °C")

	s.SMIError = nvidia.ErrNotLoaded
	assert.Equal(t, []check.Check{{Node: "gpu1", GPU: check.WholeNode, Name: check.Report, Verdict: check.Failed, Detail: nvidia.ErrNotLoaded.Error()}}, check.Facts("gpu1", s))
}

func TestParseKept(t *testing.T) {
	for words, want := range map[string]check.Verdict{
		"kept|\n": check.Passed,
		"lost|after 3 s: Failed to initialize NVML: Unknown Error": check.Failed,
		"failed|No devices were found":                             check.Failed,
		"":                                                         check.Failed,
	} {
		c := check.ParseReload("gpu1", words)
		assert.Equal(t, want, c.Verdict, words)
		assert.NotEmpty(t, c.Detail)
	}
	assert.Contains(t, check.ParseReload("gpu1", "lost|after 3 s: Failed to initialize NVML: Unknown Error").Detail, "Unknown Error: the container runtime must inject devices by CDI")
}

// The Job that must be refused asks for one more than there are, and the one that holds a GPU for
// as many as it was told.
func TestJobs(t *testing.T) {
	o := check.VerifyOptions{RunID: "r1"}
	for asks, objects := range map[int64][]int{3: {2}} {
		j := check.OverRequestObjects("gpu1", objects[0], o)[1].(*batchv1.Job)
		limit := j.Spec.Template.Spec.Containers[0].Resources.Limits[nvidia.Resource]
		assert.Equal(t, asks, limit.Value())
		assert.Equal(t, check.Name("gpu1", "refuse", "r1"), j.Name)
	}
	j := check.ReloadObjects("gpu1", o)[1].(*batchv1.Job)
	assert.Equal(t, []string{"sh", "/check/keep.sh", "20"}, j.Spec.Template.Spec.Containers[0].Command)
	assert.NotEqual(t, check.Name("gpu1", "keep", "r1"), check.Name("gpu1", "refuse", "r1"))
}

func TestJUnit(t *testing.T) {
	checks := []check.Check{
		{Node: "gpu1", GPU: 0, Name: check.PCIe, Verdict: check.Warning, Detail: "x8 <&>\x01"},
		{Node: "gpu1", GPU: 0, Name: check.ECC, Verdict: check.Failed, Detail: "3 errors"},
		{Node: "gpu2", GPU: check.WholeNode, Name: check.Report, Verdict: check.Skipped, Detail: "no login"},
		{Node: "gpu1", GPU: 1, Name: check.ECC, Verdict: check.Passed},
	}
	var out bytes.Buffer
	require.NoError(t, check.JUnit(&out, "gpu:verify", time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC), checks))
	assert.Equal(t, `<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="gpu:verify" tests="4" failures="1" skipped="1" timestamp="2026-11-23T20:00:00">
  <testcase classname="gpu1 GPU 0" name="pcie">
    <system-out>warning: x8 &lt;&amp;&gt;</system-out>
  </testcase>
  <testcase classname="gpu1 GPU 0" name="ecc">
    <failure message="3 errors"></failure>
  </testcase>
  <testcase classname="gpu2" name="report">
    <skipped message="no login"></skipped>
  </testcase>
  <testcase classname="gpu1 GPU 1" name="ecc"></testcase>
</testsuite>
`, out.String())
	full := errors.New("disk full")
	assert.ErrorIs(t, check.JUnit(fails{full}, "x", time.Now(), checks), full)
}

type fails struct{ err error }

func (f fails) Write([]byte) (int, error) { return 0, f.err }

func FuzzJUnit(f *testing.F) {
	f.Add("gpu1", "a\x00b]]>")
	f.Fuzz(func(t *testing.T, node, detail string) {
		var out bytes.Buffer
		require.NoError(t, check.JUnit(&out, node, time.Now(), []check.Check{{Node: node, Detail: detail, Verdict: check.Failed}}))
		require.NoError(t, xml.Unmarshal(out.Bytes(), new(struct{})), "%q", out.String())
	})
}

// What a card says of its end, the worst first.
func TestFailingMemory(t *testing.T) {
	for part, c := range map[string]struct {
		gpu     nvidia.SMIGPU
		verdict check.Verdict
	}{
		"restart of the host":                 {nvidia.SMIGPU{Recovery: "Reboot", Retiring: true}, check.Failed},
		"copy between GPUs":                   {nvidia.SMIGPU{Recovery: "Drain P2P"}, check.Warning},
		`asks for "Reset"`:                    {nvidia.SMIGPU{Recovery: "Reset"}, check.Failed},
		"than NVIDIA allows":                  {nvidia.SMIGPU{WornOut: true}, check.Failed},
		"60 memory pages":                     {nvidia.SMIGPU{Retired: 60}, check.Failed},
		"no uncorrectable errors":             {nvidia.SMIGPU{Retired: 59, ECC: true}, check.Passed},
		"pages are retired at the next reset": {nvidia.SMIGPU{Retiring: true, ECCErrors: 1}, check.Failed},
		"repaired at its next reset":          {nvidia.SMIGPU{Repairing: true}, check.Warning},
		"1 uncorrectable memory errors since": {nvidia.SMIGPU{ECCErrors: 1}, check.Failed},
		"bad memory rows wait":                {nvidia.SMIGPU{RowsFailing: true}, check.Failed},
	} {
		var said []string
		for _, f := range check.Facts("wk1", nvidia.DriverState{SMI: nvidia.SMI{GPUs: []nvidia.SMIGPU{c.gpu}}}) {
			if f.Name == check.ECC {
				said = append(said, f.Detail)
				assert.Equal(t, c.verdict, f.Verdict, f.Detail)
			}
		}
		assert.Contains(t, strings.Join(said, ""), part)
	}
	found := check.Facts("wk1", nvidia.DriverState{SMI: nvidia.SMI{GPUs: []nvidia.SMIGPU{{Index: 0, Lost: true}, {Index: 1}}}})
	assert.Equal(t, check.Failed, found[0].Verdict)
	assert.Equal(t, check.Report, found[0].Name)
	assert.Equal(t, 1, found[1].GPU, "the other is judged")
}

// The kernel's log: what stops a GPU has failed, in whatever words; a program's error is not the fault of
// the card.
func TestLog(t *testing.T) {
	const xid = "[9.5] NVRM: Xid (PCI:0000:01:00): "
	for line, want := range map[string]struct {
		verdict check.Verdict
		detail  string
	}{
		"[1.0] NVRM: loading":                                                                {check.Passed, "none in the kernel's log"},
		xid + "79, pid=7, GPU has fallen off the bus.":                                       {check.Failed, "Xid 79 of GPU 0000:01:00 (hardware): the GPU has fallen off the bus"},
		"[9.5] NVRM: GPU at PCI:0000:83:00: has fallen off the bus":                          {check.Failed, "GPU 0000:83:00 (hardware): the GPU has fallen off the bus"},
		xid + "64, Row Remapper: Failed to remap row":                                        {check.Failed, "could not be remapped"},
		xid + "63, Row Remapper: New row marked for remapping":                               {check.Warning, "is remapped"},
		xid + "31, pid=9, name=python3, MMU Fault":                                           {check.Passed, "of programs alone: Xid 31"},
		xid + "45, pid=9, name=python3, Ch 00000010":                                         {check.Passed, "of programs alone: Xid 45"},
		xid + "999, something":                                                               {check.Warning, "not in our table"},
		xid + "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)": {check.Passed, "None"},
	} {
		got := of(check.Facts("gpu1", nvidia.DriverState{Log: []string{line}}), check.WholeNode, check.Xid)
		assert.Equal(t, want.verdict, got.Verdict, line)
		assert.Contains(t, got.Detail, want.detail)
	}
	// One check, that hides none: the last line is often only that the program has ended.
	both := of(check.Facts("gpu1", nvidia.DriverState{Log: []string{xid + "13, Graphics Exception", xid + "43, pid=9, name=bad"}}), check.WholeNode, check.Xid)
	assert.Regexp(t, "^of programs alone: Xid 13 .*; Xid 43 ", both.Detail)
	lost := check.Facts("gpu1", nvidia.DriverState{SMIError: nvidia.ErrLost, Log: []string{xid + "79, GPU has fallen off the bus."}})
	require.Len(t, lost, 2, "the cause as well")
	assert.Contains(t, lost[1].Detail, "check power, heat and riser")
}
