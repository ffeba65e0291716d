package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is what a check came to.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Skipped Verdict = "skipped" // it could not look; Evidence says why
	Warning Verdict = "warning" // it may work, or work for now
	Error   Verdict = "error"   // it will not work
)

// Finding is what a check found out about one thing.
type Finding struct {
	ID       string  `json:"id"`                 // PX3, or a word: docs/host-check.md
	Title    string  `json:"title"`              // what is right when nothing is wrong
	Subject  string  `json:"subject,omitempty"`  // the host, VM, card or storage it is about
	Verdict  Verdict `json:"verdict"`            //
	Evidence string  `json:"evidence,omitempty"` // what was seen, as a sentence that stands alone
	Cure     string  `json:"cure,omitempty"`     // what to do
	Err      error   `json:"-"`                  // for programs, where there is more to know; may be nil
	Command  string  `json:"command,omitempty"`  // what to paste for that, one command a line; Cure then ends with a colon
}

// String is the finding as an error would say it; an id of the collection follows the
// evidence, so that one can look it up.
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

// Report is what all checks came to.
type Report struct {
	Hosts    []string  // that were looked at
	Checks   int       // how many had something to look at
	Findings []Finding // in the order of the checks; a check that holds has one with OK
}

// Worst returns the gravest verdict: Error, Warning or OK. What could not be looked
// at counts for nothing.
func (r *Report) Worst() Verdict {
	switch {
	case len(r.Of(Error)) > 0:
		return Error
	case len(r.Of(Warning)) > 0:
		return Warning
	}
	return OK
}

// Of returns the findings with a verdict.
func (r *Report) Of(v Verdict) []Finding {
	return keep(r.Findings, func(f Finding) bool { return f.Verdict == v })
}

// Err joins all errors into one; nil when there is none.
func (r *Report) Err() error {
	if all := r.Of(Error); len(all) > 0 {
		return &Refusal{all}
	}
	return nil
}

// Refusal is the errors of a report.
type Refusal struct{ Findings []Finding }

// Error lists them all.
func (e *Refusal) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns what programs may act upon.
func (e *Refusal) Unwrap() []error {
	var out []error
	for _, f := range e.Findings {
		if f.Err != nil {
			out = append(out, f.Err)
		}
	}
	return out
}

// wrong is an error. Between backquotes, at its end, a cure has the command. The check
// that the finding comes from fills in the rest.
func wrong(subject, cure, format string, args ...any) Finding {
	cure, command, _ := strings.Cut(strings.TrimSuffix(cure, "`"), "`")
	return Finding{Subject: subject, Verdict: Error, Evidence: fmt.Sprintf(format, args...), Cure: strings.TrimSpace(cure), Command: command}
}

// odd is a warning.
func odd(subject, cure, format string, args ...any) Finding {
	f := wrong(subject, cure, format, args...)
	f.Verdict = Warning
	return f
}

// notSeen is a check that could not look.
func notSeen(subject string, err error) Finding {
	first, rest, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return Finding{Subject: subject, Verdict: Skipped, Evidence: first, Cure: strings.TrimSpace(rest)}
}

// once drops findings that say the same of the same.
func once(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
