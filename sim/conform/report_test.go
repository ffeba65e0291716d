package conform

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var err error
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	sent := 0
	for _, params := range r.Recorded {
		sent += len(strings.Fields(params))
	}
	say("What the product asks of Proxmox: %d methods, of which whole lives asked for %d with %d parameters. Not as it should be: %d things.\n\n", len(r.Product), len(r.Recorded), sent, len(r.Problems))
	if err != nil {
		return err
	}
	if err := r.printTrees(w); err != nil {
		return err
	}
	say("\nPermissions: %d methods by the schema's own rule, %d that are open by it and filtered or refused in code, %d for root@pam alone; all as the schema has them.\n",
		r.ByCheck, r.ByCode, r.RootOnly)
	say("\nFormats that accept everything:\n")
	for _, f := range r.Unchecked {
		say("  %s: %s\n", f, r.Explained.Formats[f])
	}
	say("\nMethods that are not served (501, as unknown methods are):\n")
	for _, t := range r.Trees {
		for _, line := range t.missing() {
			say("  %s\n", line)
		}
	}
	return err
}

// missing are the methods that a tree lacks; where it lacks most, their number by
// what they are about.
func (t Tree) missing() (lines []string) {
	if 2*t.Served > t.Methods {
		return t.Missing
	}
	about := map[string]int{}
	for _, name := range t.Missing {
		rest := strings.TrimPrefix(strings.TrimPrefix(path(name), t.Path), "/{node}")
		part, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		about[t.Path+"/…/"+part]++
	}
	for _, what := range slices.Sorted(maps.Keys(about)) {
		lines = append(lines, fmt.Sprintf("%s: %d", what, about[what]))
	}
	return lines
}

func (r *Report) printTrees(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "methods\t\tparameters\t\t tree\t") // Flush returns errors
	for _, tree := range r.Trees {
		_, _ = fmt.Fprintf(t, "%d/%d\t%s\t%d/%d\t%s\t %s\t\n", tree.Served, tree.Methods, share(tree.Served, tree.Methods),
			tree.Taken, tree.Parameters, share(tree.Taken, tree.Parameters), tree.Path)
	}
	return t.Flush()
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d %%", 100*n/of)
}
