package session

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// level returns the requested level.
func (f VerifyFlags) level() (cluster.VerifyLevel, error) {
	switch l := cluster.VerifyLevel(f.Level); l {
	case "":
		return cluster.VerifyQuick, nil
	case cluster.VerifyQuick, cluster.VerifyFull:
		return l, nil
	}
	return "", failedf(invalid, "-level=%s: write quick or full", f.Level)
}

// write writes the checks for a CI system, if that was requested.
func (f VerifyFlags) write(name string, checks []check.Check) error {
	if f.JUnit == "" {
		return nil
	}
	var out bytes.Buffer
	if err := check.JUnit(&out, "gpu:verify "+name, time.Now(), checks); err != nil {
		return err
	}
	return keep.Whole(f.JUnit, out.Bytes(), 0o644)
}

// printChecks prints the checks that did not pass, and how many did. Whether a GPU computes is in
// the results.
func (s *Session) printChecks(checks []check.Check) {
	if s.JSON {
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
	s.Findings(lines)
	text := fmt.Sprintf("%s: %d passed", count(len(checks), "check"), counts[check.Passed])
	for _, v := range []check.Verdict{check.Failed, check.Warning, check.Skipped} {
		if counts[v] > 0 {
			text += fmt.Sprintf(", %d %s", counts[v], map[check.Verdict]string{check.Failed: "failed", check.Warning: "with a warning", check.Skipped: "skipped"}[v])
		}
	}
	s.Summary("%s", text)
}
