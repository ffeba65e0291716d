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
		r.ByCheck, len(r.ByCode), r.RootOnly)
	say("\nOpen by the schema, and what code asks for there:\n")
	for _, name := range slices.Sorted(maps.Keys(r.ByCode)) {
		if r.ByCode[name] != "" {
			say("  %s: %s\n", name, r.ByCode[name])
		}
	}
	if len(r.Explained.Privileges) > 0 {
		say("\nPrivileges in the schema's descriptions that nothing requires:\n")
		for _, name := range slices.Sorted(maps.Keys(r.Explained.Privileges)) {
			say("  %s: %s\n", name, r.Explained.Privileges[name])
		}
	}
	say("\nParameters that are taken and have no effect:\n")
	for _, k := range slices.Sorted(maps.Keys(r.Inert)) {
		say("  %s (%s): %s\n", k, places(r.Inert[k]), r.why(k))
	}
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

// places says where a parameter is: the method, or how many.
func places(methods []string) string {
	if len(methods) == 1 {
		return methods[0]
	}
	return fmt.Sprintf("%d methods", len(methods))
}

func (r *Report) why(k string) string {
	if text := r.Explained.Parameters[k]; text != "" {
		return text
	}
	var out []string
	for _, m := range r.Inert[k] {
		if text := r.Explained.Parameters[m+" "+k]; text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if out == nil {
		return "NOT EXPLAINED"
	}
	return strings.Join(out, "; ")
}

func (r *Report) printTrees(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "methods\t\tparameters\t\twith effect\t\t tree\t") // Flush returns errors
	for _, tree := range r.Trees {
		_, _ = fmt.Fprintf(t, "%d/%d\t%s\t%d/%d\t%s\t%d\t%s\t %s\t\n", tree.Served, tree.Methods, share(tree.Served, tree.Methods),
			tree.Taken, tree.Parameters, share(tree.Taken, tree.Parameters), tree.Effective, share(tree.Effective, tree.Taken), tree.Path)
	}
	return t.Flush()
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d %%", 100*n/of)
}
