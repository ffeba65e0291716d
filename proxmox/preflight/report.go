package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Skipped Verdict = "skipped" // the check could not run; Evidence says why
	Warning Verdict = "warning" // it may fail, or fail later
	Error   Verdict = "error"   // it does not work
)

// Finding is one result of a check, about one thing.
type Finding struct {
	ID       string  `json:"id"`                 // PX3, or a word: docs/host-check.md
	Title    string  `json:"title"`              // what holds if nothing is wrong
	Subject  string  `json:"subject,omitempty"`  // the host, VM, card or storage it is about
	Verdict  Verdict `json:"verdict"`            //
	Evidence string  `json:"evidence,omitempty"` // what the check saw, as a sentence that stands alone
	Cure     string  `json:"cure,omitempty"`     // what to do
	Err      error   `json:"-"`                  // for programs that need details; may be nil
	Command  string  `json:"command,omitempty"`  // the commands to paste as the cure, one a line; Cure then ends with a colon
}

// String returns the finding as an error message. The evidence is followed by the check's id, if it
// is in the collection, so that the reader can look it up.
func (f Finding) String() string {
	s := f.Evidence
	if strings.ToLower(f.ID) != f.ID {
		s += " (" + f.ID + ")"
	}
	between := " "
	if strings.Contains(f.Command, "\n") {
		between = "\n"
	}
	if do := strings.TrimSpace(f.Cure + between + f.Command); do != "" {
		s += "\n  " + strings.ReplaceAll(do, "\n", "\n  ")
	}
	return s
}

// Report has the results of all checks.
type Report struct {
	Hosts    []string  // that were checked
	Checks   int       // how many checks applied
	Findings []Finding // in the order of the checks; a check that passes has one with OK
}

// Worst returns the most severe verdict: Error, Warning or OK. It ignores skipped checks.
func (r *Report) Worst() Verdict {
	switch {
	case len(r.WithVerdict(Error)) > 0:
		return Error
	case len(r.WithVerdict(Warning)) > 0:
		return Warning
	}
	return OK
}

// WithVerdict returns the findings with a verdict.
func (r *Report) WithVerdict(v Verdict) []Finding {
	return filter(r.Findings, func(f Finding) bool { return f.Verdict == v })
}

// Notes returns what is right and worth knowing, as sentences.
func (r *Report) Notes() []string {
	var out []string
	for _, f := range r.WithVerdict(OK) {
		if f.Evidence != "" {
			out = append(out, f.Evidence)
		}
	}
	return out
}

// Err joins all errors into one, or returns nil if there are none.
func (r *Report) Err() error {
	if all := r.WithVerdict(Error); len(all) > 0 {
		return &RefusedError{all}
	}
	return nil
}

// RefusedError is an error with the findings that prevent a run.
type RefusedError struct{ Findings []Finding }

// Error lists them all.
func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors that programs can test for.
func (e *RefusedError) Unwrap() []error {
	var out []error
	for _, f := range e.Findings {
		if f.Err != nil {
			out = append(out, f.Err)
		}
	}
	return out
}

// errorf returns an error. A command goes at the end of the cure, between backquotes. The check that
// returns the finding fills in the rest.
func errorf(subject, cure, format string, args ...any) Finding {
	cure, command, _ := strings.Cut(strings.TrimSuffix(cure, "`"), "`")
	return Finding{Subject: subject, Verdict: Error, Evidence: fmt.Sprintf(format, args...), Cure: strings.TrimSpace(cure), Command: command}
}

// warnf returns a warning.
func warnf(subject, cure, format string, args ...any) Finding {
	f := errorf(subject, cure, format, args...)
	f.Verdict = Warning
	return f
}

// unobservedFinding returns the finding of a check that could not run.
func unobservedFinding(subject string, err error) Finding {
	first, rest, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return Finding{Subject: subject, Verdict: Skipped, Evidence: first, Cure: strings.TrimSpace(rest)}
}

// withoutDuplicates drops duplicate findings about the same subject.
func withoutDuplicates(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
