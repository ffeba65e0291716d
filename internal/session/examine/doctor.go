package examine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
)

// sick is the exit code if something does not work.
const sick = 2

// Doctor looks everywhere at once, and prints what is wrong: causes first, and below each what
// follows from it.
func Doctor(s *session.Session, ctx context.Context) error {
	report, err := doctor.Examine(ctx, sources(s))
	if err != nil {
		return err
	}
	if s.JSON {
		err = console.Objects(s.Console, report.Findings)
	} else {
		show(s.Console, report)
	}
	if err == nil && report.HasErrors() {
		err = &session.Error{Code: sick, Err: errors.New("something does not work")}
	}
	return err
}

// sources are the ways to look at a cluster, and what this machine knows.
func sources(s *session.Session) doctor.Sources {
	out := s.Cluster.Doctor()
	out.Away = s.Away
	last, err := history.LastRun(s.LastRunFile())
	if err != nil {
		s.Printf("warning: %s", err)
	}
	if last != nil {
		out.LastRun = &doctor.FailedRun{Ended: last.Ended}
		for _, step := range last.Failed {
			out.LastRun.Failed = append(out.LastRun.Failed, doctor.FailedStep(step))
		}
	}
	return out
}

// show prints a report.
func show(c *console.Console, report doctor.Report) {
	var lines []console.Finding
	errs, warnings := 0, 0
	for _, f := range report.Causes() {
		if f.Severity == doctor.Error {
			errs++
		} else {
			warnings++
		}
		lines = append(lines,
			console.Finding{Grave: f.Severity == doctor.Error, ID: f.Failure, Subject: f.Where, Evidence: findingText(f, report.ConsequencesOf(f)), Cure: f.Do})
	}
	c.Findings(lines)
	verdict := "nothing wrong"
	if errs+warnings > 0 {
		verdict = printable.Count(errs, "error") + ", " + printable.Count(warnings, "warning")
	}
	if n := len(report.Findings) - errs - warnings; n > 0 {
		verdict += ", " + printable.Count(n, "consequence")
	}
	c.Summary("%s: %s (%s)", strings.Join(report.Looked, ", "), verdict, report.Took.Round(100*time.Millisecond))
}

// findingText is a finding's text: the cause, what was seen, and what follows.
func findingText(f doctor.Finding, follows []doctor.Finding) string {
	lines := []string{f.What}
	for _, e := range f.Evidence {
		if e = strings.TrimSpace(e); e != "" && !strings.Contains(f.What, e) {
			lines = append(lines, "seen: "+e)
		}
	}
	for i, c := range follows {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("so:   and %d more", len(follows)-i))
			break
		}
		lines = append(lines, "so:   "+c.String())
	}
	return strings.Join(lines, "\n")
}
