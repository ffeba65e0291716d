// Package results keeps, compares and prints what verifications of GPUs found.
package results

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/proxmox"
)

// Results is what a verification found: of each GPU, and of each node as a whole.
type Results struct {
	all    []verifyLine
	checks []check.Check
	lab    bool
}

// verifyLine is a line of gpu:verify -json. Keys are added, and never change their meaning.
type verifyLine struct {
	Node    string        `json:"node"`
	UUID    string        `json:"uuid,omitempty"`
	Index   int           `json:"index"` // history.Whole: the node
	Name    string        `json:"name,omitempty"`
	Driver  string        `json:"driver,omitempty"`
	Memory  int64         `json:"memory,omitempty"`
	Passed  bool          `json:"passed"`
	Detail  string        `json:"detail,omitempty"`
	Note    string        `json:"note,omitempty"`
	Level   string        `json:"level"`
	Lab     bool          `json:"lab,omitempty"` // the GPU is simulated
	Checks  []check.Check `json:"checks"`
	Remarks []string      `json:"remarks,omitempty"` // how it differs from earlier runs

	differs history.Difference
}

// New sorts results and checks by GPU and node. lab says that they are simulated.
func New(level string, lab bool, results []cluster.GPUResult, checks []check.Check) *Results {
	v := &Results{checks: checks, lab: lab}
	index := map[string]int{}
	for _, r := range results {
		index[r.Node+" "+r.UUID] = len(v.all)
		v.all = append(v.all, verifyLine{
			Node: r.Node, UUID: r.UUID, Index: r.Index, Name: r.Name, Driver: r.Driver, Memory: r.Memory, Passed: r.Passed, Detail: r.Detail, Note: r.Note, Level: level, Lab: lab,
		})
	}
	gpus := v.all
	for _, c := range checks {
		i, ok := index[c.Node+" "+c.UUID]
		if !ok { // of the node, or of a GPU that reported no result
			if i, ok = index[c.Node+" "]; !ok {
				i = len(v.all)
				index[c.Node+" "] = i
				v.all = append(v.all, verifyLine{Node: c.Node, Index: history.Whole, Passed: true, Level: level, Lab: lab, Driver: driverOf(gpus, c.Node)})
			}
		}
		one := &v.all[i]
		if one.Checks = append(one.Checks, c); c.Verdict == check.Failed && one.Passed {
			one.Passed, one.Detail = false, c.Name+": "+c.Detail
		}
	}
	return v
}

func driverOf(gpus []verifyLine, node string) string {
	if i := slices.IndexFunc(gpus, func(g verifyLine) bool { return g.Node == node }); i >= 0 {
		return gpus[i].Driver
	}
	return ""
}

// Remember appends the results to a history, and notes how each differs from earlier ones, also
// if it cannot be written.
func (v *Results) Remember(file string) error {
	past, _, err := history.Read(file, v.lab)
	now := time.Now()
	var records []history.Record
	for i := range v.all {
		x := &v.all[i]
		r := history.Record{
			Time: now, Level: x.Level, Node: x.Node, Index: x.Index, UUID: x.UUID, Model: x.Name, Driver: x.Driver, Memory: x.Memory,
			Passed: x.Passed, Lab: x.Lab, Detail: x.Detail, Note: x.Note,
		}
		for _, c := range x.Checks {
			one := history.Check{Name: c.Name, Verdict: string(c.Verdict)}
			if c.Verdict != check.Passed { // what passed needs no words
				one.Detail = c.Detail
			}
			r.Checks = append(r.Checks, one)
			for _, m := range c.Measures {
				r.Measures = append(r.Measures, history.Measure(m))
			}
		}
		x.differs = history.Compare(past, r)
		x.Remarks = append(x.differs.Regressions(), x.differs.Other...)
		records = append(records, r)
	}
	if err != nil || len(records) == 0 {
		return err
	}
	return history.Add(file, records...)
}

// Print prints a row for each GPU, and then what is wrong.
func (v *Results) Print(c *console.Console) error {
	if c.JSON {
		return console.Objects(c, v.all)
	}
	t := console.Table{Header: []string{"NODE", "GPU", "MODEL", "MEMORY", "DRIVER", "UUID", "RESULT"}}
	for _, r := range v.all {
		if r.Index == history.Whole {
			continue
		}
		words := []string{"passed"}
		if i := slices.IndexFunc(r.Checks, func(c check.Check) bool { return c.Name == check.Compute && c.Verdict == check.Failed }); i >= 0 {
			words = []string{"FAILED: " + r.Checks[i].Detail}
		}
		if r.Note != "" {
			words[0] += ", " + r.Note
		}
		words = append(append(words, r.differs.Worse...), r.differs.Other...)
		t.Add(r.Node, fmt.Sprint(r.Index), r.Name, memoryOf(r.Memory), r.Driver, r.UUID, strings.Join(words, "; "))
	}
	if slices.ContainsFunc(v.all, func(r verifyLine) bool { return r.Index != history.Whole }) {
		c.Table(t)
	}
	v.findings(c)
	return nil
}

// memoryOf is a GPU's memory. A container does not see that of an instance.
func memoryOf(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return proxmox.Size(bytes).String()
}

// UntestedNodes are the nodes with GPUs that were not tested, because somebody has them.
func (v *Results) UntestedNodes() []string {
	var out []string
	for _, c := range v.checks {
		if c.Name == check.Compute && c.Verdict == check.Skipped && !slices.Contains(out, c.Node) {
			out = append(out, c.Node)
		}
	}
	return out
}

// JUnit writes the checks of a verification to a file for a CI system, or nothing if file is empty.
func (v *Results) JUnit(c *console.Console, file, name string) error {
	if file == "" {
		return nil
	}
	if v.lab {
		name += " (lab: simulated GPUs)"
	}
	var out bytes.Buffer
	if err := check.JUnit(&out, "gpu:verify "+name, time.Now(), v.checks); err != nil {
		return err
	}
	return keep.WriteFile(file, []byte(c.Commands(out.String())), 0o644)
}

// findings prints the checks that did not pass, what is slower than before, and how many passed.
// Whether a GPU computes is in the table.
func (v *Results) findings(to *console.Console) {
	var lines []console.Finding
	counts := map[check.Verdict]int{}
	for _, c := range v.checks {
		counts[c.Verdict]++
		silent := c.Name == check.Compute && c.GPU == check.WholeNode
		if c.Verdict == check.Passed || c.Name == check.Compute && !silent {
			continue
		}
		lines = append(lines, console.Finding{Grave: c.Verdict == check.Failed, ID: c.Name, Subject: c.Subject(), Evidence: strings.TrimPrefix(string(c.Verdict)+": "+c.Detail, "failed: ")})
	}
	slices.SortStableFunc(lines, func(a, b console.Finding) int { return rank(a) - rank(b) })
	slow := 0
	for _, r := range v.all {
		for _, s := range r.differs.Slower {
			slow++
			lines = append(lines, console.Finding{ID: "slower", Subject: check.Check{Node: r.Node, GPU: r.Index}.Subject(), Evidence: s.Text})
		}
		if r.Index == history.Whole && len(r.differs.Worse) > 0 {
			lines = append(lines, console.Finding{ID: "worse", Subject: r.Node, Evidence: strings.Join(r.differs.Worse, "; ")})
		}
	}
	to.Findings(lines)
	text := fmt.Sprintf("%s: %d passed", printable.Count(len(v.checks), "check"), counts[check.Passed])
	for _, verdict := range []check.Verdict{check.Failed, check.Warning, check.Skipped} {
		if counts[verdict] > 0 {
			text += fmt.Sprintf(", %d %s", counts[verdict], map[check.Verdict]string{check.Failed: "failed", check.Warning: "with a warning", check.Skipped: "skipped"}[verdict])
		}
	}
	if slow > 0 {
		text += fmt.Sprintf("; %s slower than before", printable.Count(slow, "measure"))
	}
	to.Summary("%s", text)
}

// rank sorts what is grave first.
func rank(f console.Finding) int {
	if f.Grave {
		return 0
	}
	return 1
}
