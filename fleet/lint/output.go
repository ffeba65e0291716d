package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/cps-gpu/homelab/internal/printable"
)

// AtLeast returns the report without findings that are less severe than least.
func (r *Report) AtLeast(least Severity) *Report {
	out := *r
	out.Findings = nil
	for _, f := range r.Findings {
		if f.Severity >= least {
			out.Findings = append(out.Findings, f)
		}
	}
	return &out
}

// Summary is one line about the whole.
func (r *Report) Summary() string {
	errors := r.Count(Failure)
	warnings := r.Count(Warning) - errors
	s := fmt.Sprintf("%s in %s: %s, %s", count(r.Bundles, "bundle"), count(r.Files, "file"), count(errors, "error"), count(warnings, "warning"))
	if n := len(r.Findings) - errors - warnings; n > 0 {
		s += fmt.Sprintf(", %d for information", n)
	}
	if r.Suppressed > 0 {
		s += fmt.Sprintf(", %d suppressed by comments", r.Suppressed)
	}
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// JSON writes one finding per line.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, f := range r.Findings {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// lintHelp is the page that explains the rules.
const lintHelp = "https://github.com/cps-gpu/homelab/blob/main/docs/fleet-lint.md"

// SARIF writes the findings in the format that code hosts show beside the code (SARIF 2.1.0).
// Paths start at the linted folder; prefix is added before them if that is not the
// repository's root.
func (r *Report) SARIF(w io.Writer, prefix string) error {
	run := sarif.NewRunWithInformationURI("fleet-lint", lintHelp)
	for _, rule := range Rules() {
		run.AddRule(rule.ID).WithDescription(rule.Summary).WithHelpURI(lintHelp + "#" + rule.ID).
			WithMarkdownHelp(rule.Summary + "\n\n" + "**What to do:** " + rule.Cure + "\n\nSource: `" + rule.Source + "`").
			WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(rule.Severity.level()))
	}
	for _, f := range r.Findings {
		text := printable.Text(f.Message)
		if f.Cure != "" {
			text += " — " + f.Cure
		}
		place := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation((&url.URL{Path: prefix + f.File}).String())).
			WithRegion(sarif.NewRegion().WithStartLine(max(1, f.Line)).WithStartColumn(max(1, f.Column)))
		run.CreateResultForRule(f.Rule).WithLevel(f.Severity.level()).WithMessage(sarif.NewTextMessage(text)).
			AddLocation(sarif.NewLocationWithPhysicalLocation(place))
	}
	report := sarif.NewReport()
	report.AddRun(run)
	return report.PrettyWrite(w)
}

// level is SARIF's name of the severity.
func (s Severity) level() string { return [...]string{"note", "warning", "error"}[s] }
