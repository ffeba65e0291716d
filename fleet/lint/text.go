package lint

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

// lintShown is how many findings of one rule [Report.Text] shows.
const lintShown = 5

// Text writes the findings for people, the most severe first, each with its cure below. It
// shows the first five findings of a rule and counts the others; those below examples/, docs/,
// tests/ and the like get one line per rule. [Report.JSON] and [Report.SARIF] have all.
func (r *Report) Text(w io.Writer) error {
	for _, g := range lintGroups(r.Findings) {
		if err := g.write(w); err != nil {
			return err
		}
	}
	return nil
}

// lintGroup are findings of one rule and severity, in the same kind of place.
type lintGroup struct {
	aside string // their folder of examples, "" for none
	found []Finding
}

// lintGroups sorts by severity, then findings in examples after the others, then by the first
// finding of each rule.
func lintGroups(found []Finding) []lintGroup {
	type key struct {
		rule, aside string
		severity    Severity
	}
	at := map[key]int{}
	var out []lintGroup
	for _, f := range found {
		k := key{f.Rule, lintAside(f.File), f.Severity}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, lintGroup{aside: k.aside})
		}
		out[i].found = append(out[i].found, f)
	}
	slices.SortStableFunc(out, func(a, b lintGroup) int {
		return cmp.Or(cmp.Compare(b.found[0].Severity, a.found[0].Severity), cmp.Compare(min(len(a.aside), 1), min(len(b.aside), 1)))
	})
	return out
}

// lintAsides are names of folders with examples, which are not deployed.
var lintAsides = [...]string{"demo", "demos", "doc", "docs", "example", "examples", "sample", "samples", "test", "testdata", "tests"}

// lintAside is the outermost folder of examples that a file is in, or "".
func lintAside(file string) string {
	parts := strings.Split(path.Dir(file), "/")
	for i, part := range parts {
		if slices.Contains(lintAsides[:], strings.ToLower(part)) {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return ""
}

func (g lintGroup) write(w io.Writer) error {
	first := g.found[0]
	if g.aside != "" && len(g.found) > 1 {
		_, err := fmt.Fprintf(w, "%s/: %s: %d times; first %s [%s]\n", printable.Text(g.aside), first.Severity, len(g.found),
			strings.TrimSuffix(strings.Replace(first.String(), first.Severity.String()+": ", "", 1), " ["+first.Rule+"]"), first.Rule)
		return err
	}
	shown := g.found
	if len(shown) > lintShown+1 {
		shown = shown[:lintShown]
	}
	for _, f := range shown {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
		if f.Cure != "" {
			if _, err := fmt.Fprintf(w, "    %s\n", printable.Text(f.Cure)); err != nil {
				return err
			}
		}
	}
	if rest := g.found[len(shown):]; len(rest) > 0 {
		files := map[string]bool{}
		for _, f := range rest {
			files[f.File] = true
		}
		_, err := fmt.Fprintf(w, "... and %d more of [%s] in %s: -json and -sarif list all\n", len(rest), first.Rule, count(len(files), "file"))
		return err
	}
	return nil
}
