package examine

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/conformance"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
)

// Conformance compares the cluster with the CNCF's requirements for AI on Kubernetes.
func Conformance(s *session.Session, ctx context.Context, f ConformanceFlags) error {
	d := s.Cluster.Doctor()
	sources := conformance.Sources{Spec: d.Spec, Kube: d.Kube, Root: d.Root, HasDriver: d.HasDriver}
	var isolation *conformance.Finding
	if f.Run {
		if !s.JSON {
			s.Printf("starting pods in the namespace %s", conformance.IsolationNamespace)
		}
		found, err := conformance.CheckIsolation(ctx, sources)
		if err != nil {
			return err
		}
		isolation = &found
	}
	report, err := conformance.Check(ctx, sources, isolation)
	if err != nil {
		return err
	}
	if s.JSON {
		err = console.Objects(s.Console, report.Findings)
	} else {
		showConformance(s.Console, report)
	}
	if n := len(report.Missing()); err == nil && n > 0 {
		err = &session.Error{Code: sick, Err: fmt.Errorf("this cluster does not show %s that AI conformance %s demands (MUST)", printable.Count(n, "requirement"), report.Requirements)}
	}
	return err
}

// showConformance prints a table, and below it what would make the rest pass.
func showConformance(c *console.Console, r conformance.Report) {
	t := console.Table{Header: []string{"REQUIREMENT", "LEVEL", "RESULT", "EVIDENCE"}}
	var open []console.Finding
	passed := 0
	for _, f := range r.Findings {
		t.Add(f.ID, string(f.Level), string(f.Result), strings.Join(f.Evidence, "; "))
		if f.Result == conformance.Passed {
			passed++
		}
		if f.Do != "" {
			open = append(open, console.Finding{Grave: f.Level == conformance.Must, ID: f.ID, Subject: string(f.Result), Evidence: f.Requirement, Cure: f.Do})
		}
	}
	c.Table(t)
	c.Findings(open)
	c.Summary("Kubernetes %s, AI conformance %s: %d of %s passed", r.Kubernetes, r.Requirements, passed, printable.Count(len(r.Findings), "requirement"))
	c.Printf("This is evidence, and no certificate: docs/conformance.md says what the CNCF's programme asks beyond it.")
}
