package examine

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// PlatformVerify tries every part of the platform, and prints a row for each check.
func PlatformVerify(s *session.Session, ctx context.Context, f PlatformVerifyFlags) error {
	if !s.JSON {
		s.Printf("trying the parts, which takes up to two minutes")
	}
	var parts []string
	if f.Part != "" {
		parts = strings.Split(f.Part, ",")
	}
	results, err := s.Cluster.PlatformVerify(ctx, parts...)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		s.Printf("%s has no parts beside Kubernetes.", s.Spec.Name)
		return nil
	}
	failed, err := printVerified(s, results)
	if err != nil {
		return err
	}
	if err := junitOfPlatform(s, f.JUnit, results); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed > 0 {
		return &session.Error{Code: 1, Err: fmt.Errorf("%d of %s failed", failed, printable.Count(len(results), "check"))}
	}
	return nil
}

func verdictOf(r verify.Result) check.Verdict {
	switch {
	case r.Passed():
		return check.Passed
	case r.UncheckedReason() != "":
		return check.Skipped
	}
	return check.Failed
}

// detailOf is what was seen, or why it failed or was not tried.
func detailOf(r verify.Result) string {
	if r.Passed() {
		return r.Seen
	}
	return strings.ReplaceAll(r.Err.Error(), "\n", "; ")
}

// verifiedLine is a line of platform:verify -json. Keys are added, and never change their meaning.
type verifiedLine struct {
	Part    string        `json:"part"`
	Check   string        `json:"check"`
	Verdict check.Verdict `json:"verdict"`
	Detail  string        `json:"detail,omitempty"`
	Seconds float64       `json:"seconds"`
	Lab     bool          `json:"lab,omitempty"` // what answers is simulated
}

// printVerified prints the results, and returns how many failed.
func printVerified(s *session.Session, results []verify.Result) (failed int, err error) {
	var rows []verifiedLine
	t := console.Table{Header: []string{"PART", "CHECK", "RESULT", "SEEN"}}
	var bad []console.Finding
	counts := map[check.Verdict]int{}
	for _, r := range results {
		v := verifiedLine{Part: r.Part, Check: r.Name, Verdict: verdictOf(r), Detail: detailOf(r), Seconds: r.Took.Round(100 * time.Millisecond).Seconds(), Lab: s.Spec.IsLab()}
		rows = append(rows, v)
		counts[v.Verdict]++
		switch v.Verdict {
		case check.Failed:
			t.Add(v.Part, v.Check, "FAILED", "")
			bad = append(bad, console.Finding{Grave: true, ID: v.Part, Subject: v.Check, Evidence: v.Detail})
		case check.Skipped:
			t.Add(v.Part, v.Check, "not tried", v.Detail)
		default:
			t.Add(v.Part, v.Check, string(v.Verdict), v.Detail)
		}
	}
	if s.JSON {
		return counts[check.Failed], console.Objects(s.Console, rows)
	}
	s.Table(t)
	s.Findings(bad)
	text := fmt.Sprintf("%s: %d passed", printable.Count(len(rows), "check"), counts[check.Passed])
	if n := counts[check.Failed]; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := counts[check.Skipped]; n > 0 {
		text += fmt.Sprintf(", %d not tried", n)
	}
	s.Summary("%s", text)
	return counts[check.Failed], nil
}

// junitOfPlatform writes the checks to a file for a CI system, a class for each part; nothing if file is empty.
func junitOfPlatform(s *session.Session, file string, results []verify.Result) error {
	if file == "" {
		return nil
	}
	name := "platform:verify " + s.Spec.Name
	if s.Spec.IsLab() {
		name += " (lab: simulated)"
	}
	var all []check.Check
	for _, r := range results {
		all = append(all, check.Check{Node: r.Part, GPU: check.WholeNode, Name: r.Name, Verdict: verdictOf(r), Detail: detailOf(r)})
	}
	var out bytes.Buffer
	if err := check.JUnit(&out, name, time.Now(), all); err != nil {
		return err
	}
	return keep.WriteFile(file, []byte(s.Commands(out.String())), 0o644)
}
