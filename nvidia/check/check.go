package check

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"
	Warning Verdict = "warning" // it works, with less than it could
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped" // it could not be checked; the detail says why
)

// WholeNode is the GPU of a check that concerns all of a node.
const WholeNode = -1

// Check is a judgement about a node or a GPU.
type Check struct {
	Node    string  `json:"node"`
	GPU     int     `json:"gpu"` // index on the node, WholeNode for all of it
	UUID    string  `json:"uuid,omitempty"`
	Name    string  `json:"check"` // e.g. "pcie"
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // what was seen, and the cure
	// Measures are what the check measured, the main one first.
	Measures []Measure `json:"measures,omitempty"`
}

// Measure is something that a check measured.
type Measure struct {
	Name  string  `json:"name"` // e.g. "peer-to-peer"
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`           // e.g. "GB/s"
	Less  bool    `json:"less,omitempty"` // less is better, as of a duration
}

// Subject is e.g. "wk-gpu1 GPU 0", or the node alone.
func (c Check) Subject() string {
	if c.GPU == WholeNode {
		return c.Node
	}
	return fmt.Sprintf("%s GPU %d", c.Node, c.GPU)
}

// Names of checks.
const (
	PCIe        = "pcie"    // the link has the width that the card can use
	ECC         = "ecc"     // no uncorrectable memory errors, no rows that wait for repair
	Clocks      = "clocks"  // the hardware does not slow the card
	Xid         = "xid"     // no Xid errors of the driver since the node has booted
	Report      = "report"  // nvidia-smi answers on the node
	OverRequest = "refuse"  // one GPU more than the node offers is refused
	Reload      = "keep"    // a container keeps its GPU when systemd reloads its units
	Compute     = "compute" // a CUDA program computes correctly
	Scratch     = "scratch" // a file on a scratch volume of the node is read as it was written
	Home        = "home"    // and on a volume like the home of a user of the hub
)

// Facts judges what nvidia-smi and the kernel's log say on a node.
func Facts(node string, s nvidia.DriverState) []Check {
	if s.SMIError != nil {
		return append([]Check{{Node: node, GPU: WholeNode, Name: Report, Verdict: Failed, Detail: s.SMIError.Error()}}, failures(node, s.Log)...)
	}
	var out []Check
	for _, g := range s.GPUs() {
		if g.Lost {
			out = append(out, Check{Node: node, GPU: g.Index, UUID: g.UUID, Name: Report, Verdict: Failed, Detail: "nvidia-smi has errors in place of its values: the card no longer answers; " + cycle + "; if it stays, replace the card"})
			continue
		}
		for _, judge := range []func(nvidia.SMIGPU) (string, Verdict, string){pcie, ecc, clocks} {
			name, verdict, detail := judge(g)
			out = append(out, Check{Node: node, GPU: g.Index, UUID: g.UUID, Name: name, Verdict: verdict, Detail: detail})
		}
	}
	return append(out, xids(node, s.Log)...)
}

func pcie(g nvidia.SMIGPU) (string, Verdict, string) {
	l := g.Link
	switch {
	case l.Width == 0 || l.MaxWidth == 0:
		return PCIe, Skipped, "nvidia-smi does not report the link"
	case l.Width < l.MaxWidth:
		return PCIe, Warning, fmt.Sprintf("x%d, and the card can use x%d: another slot, a riser or a bad contact", l.Width, l.MaxWidth)
	}
	return PCIe, Passed, fmt.Sprintf("x%d, generation %d", l.Width, max(l.MaxGeneration, l.Generation))
}

// maxRetired is from how many retired pages on NVIDIA replaces a card (its guide to dynamic page
// retirement, RMA eligibility).
const maxRetired = 60

const cycle = "switch the VM off and on (node:cycle)"

func ecc(g nvidia.SMIGPU) (string, Verdict, string) {
	switch {
	case g.Recovery == "Reboot":
		return ECC, Failed, "the driver asks for a restart of the host: shut its VMs down and restart it"
	case g.Recovery == "Drain P2P":
		return ECC, Warning, "the driver asks to end programs that copy between GPUs: drain the node, and " + cycle
	case g.Recovery != "":
		return ECC, Failed, fmt.Sprintf("the driver asks for %q: %s; if it stays, replace the card", g.Recovery, cycle)
	case g.WornOut:
		return ECC, Failed, "more errors in the chip's own memory than NVIDIA allows: replace the card"
	case g.Retired >= maxRetired:
		return ECC, Failed, fmt.Sprintf("%d memory pages are retired, and NVIDIA replaces a card from %d on", g.Retired, maxRetired)
	case g.Retiring:
		return ECC, Failed, "bad memory pages are retired at the next reset: " + cycle
	case g.Repairing:
		return ECC, Warning, "a part of the card is repaired at its next reset: " + cycle + " when the node is free"
	case g.RowsFailing:
		return ECC, Failed, "bad memory rows wait for a reset or cannot be remapped: " + cycle + "; if it stays, replace the card"
	case g.ECCErrors > 0:
		return ECC, Failed, fmt.Sprintf("%d uncorrectable memory errors since the driver was loaded: results may be wrong", g.ECCErrors)
	case !g.ECC:
		return ECC, Passed, "off, or the card has none"
	}
	return ECC, Passed, "no uncorrectable errors"
}

func clocks(g nvidia.SMIGPU) (string, Verdict, string) {
	if len(g.Slowed) > 0 {
		return Clocks, Warning, fmt.Sprintf("slowed by %s at %d °C: look at air flow and power", strings.Join(g.Slowed, " and "), g.Celsius)
	}
	return Clocks, Passed, fmt.Sprintf("%d °C", g.Celsius)
}

// xids judges what the driver has written into the kernel's log: what stops a GPU has failed, and a
// program's own error is its owner's.
func xids(node string, log []string) []Check {
	if failed := failures(node, log); len(failed) > 0 {
		return failed
	}
	out := Check{Node: node, GPU: WholeNode, Name: Xid, Verdict: Passed, Detail: "none in the kernel's log"}
	var programs, others []string
	for _, f := range nvidia.ExplainLog(log) {
		switch {
		case f.Xid == 0:
		case f.Fault == nvidia.InApplication, f.Fault == "" && f.Do == "":
			programs = append(programs, f.String())
		default: // one that is not in the table, too
			others = append(others, f.String())
		}
	}
	switch {
	case len(others) > 0:
		out.Verdict, out.Detail = Warning, strings.Join(others, "; ")
	case len(programs) > 0:
		out.Detail = "of programs alone: " + strings.Join(programs, "; ")
	}
	return []Check{out}
}

// failures are the messages of the kernel's log that stop a GPU, each with what to do.
func failures(node string, log []string) []Check {
	var out []Check
	for _, f := range nvidia.ExplainLog(log) {
		if f.Stops {
			out = append(out, Check{Node: node, GPU: WholeNode, Name: Xid, Verdict: Failed, Detail: f.String()})
		}
	}
	return out
}
