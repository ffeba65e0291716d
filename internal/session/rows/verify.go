package rows

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/proxmox"
)

// Results prints what each GPU of a verification did; remarks compare each with earlier runs.
func Results(c *console.Console, results []cluster.GPUResult, remarks []string) error {
	if c.JSON {
		return console.Objects(c, results)
	}
	t := console.Table{Header: []string{"NODE", "GPU", "MODEL", "MEMORY", "DRIVER", "UUID", "RESULT"}}
	for i, r := range results {
		verdict := "passed"
		if !r.Passed {
			verdict = "FAILED: " + r.Detail
		}
		if r.Note != "" {
			verdict += ", " + r.Note
		}
		if remarks[i] != "" {
			verdict += "; " + remarks[i]
		}
		t.Add(r.Node, fmt.Sprint(r.Index), r.Name, memoryOf(r), r.Driver, r.UUID, verdict)
	}
	c.Table(t)
	return nil
}

// memoryOf is a GPU's memory. A container does not see that of an instance.
func memoryOf(r cluster.GPUResult) string {
	if r.Memory == 0 {
		return "-"
	}
	return proxmox.Size(r.Memory).String()
}

// JUnit writes the checks of a verification to a file for a CI system, or nothing if file is empty.
func JUnit(file, name string, checks []check.Check) error {
	if file == "" {
		return nil
	}
	var out bytes.Buffer
	if err := check.JUnit(&out, "gpu:verify "+name, time.Now(), checks); err != nil {
		return err
	}
	return keep.Whole(file, out.Bytes(), 0o644)
}

// Checks prints the checks that did not pass, and how many did. Whether a GPU computes is in
// the results.
func Checks(to *console.Console, checks []check.Check) {
	if to.JSON {
		return
	}
	var lines []console.Finding
	counts := map[check.Verdict]int{}
	for _, c := range checks {
		counts[c.Verdict]++
		silent := c.Name == check.Compute && c.GPU == check.WholeNode
		if c.Verdict == check.Passed || c.Name == check.Compute && !silent {
			continue
		}
		lines = append(lines, console.Finding{Grave: c.Verdict == check.Failed, ID: c.Name, Subject: c.Subject(), Evidence: strings.TrimPrefix(string(c.Verdict)+": "+c.Detail, "failed: ")})
	}
	to.Findings(lines)
	text := fmt.Sprintf("%s: %d passed", many(len(checks), "check"), counts[check.Passed])
	for _, v := range []check.Verdict{check.Failed, check.Warning, check.Skipped} {
		if counts[v] > 0 {
			text += fmt.Sprintf(", %d %s", counts[v], map[check.Verdict]string{check.Failed: "failed", check.Warning: "with a warning", check.Skipped: "skipped"}[v])
		}
	}
	to.Summary("%s", text)
}

func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
