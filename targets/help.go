package targets

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// help describes a target, with a line for each of its flags.
func (t target) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", t.name, t.doc)
	if len(t.flags) == 0 {
		return b.String()
	}
	b.WriteString("\n")
	lines := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, o := range t.flags {
		value, help := o.value()
		fmt.Fprintf(lines, "  -%s%s\t%s\n", o.name, value, help)
	}
	_ = lines.Flush() // a Builder accepts everything
	return b.String()
}

// value returns the form of a flag's value, "=FILE", and the help without it. The comment
// starts with it, in one word: "FILE: the cluster's file".
func (o option) value() (value, help string) {
	if o.kind == "bool" {
		return "", o.help
	}
	value, help, ok := strings.Cut(o.help, ": ")
	if !ok || strings.Contains(value, " ") {
		return "=<" + o.kind + ">", o.help
	}
	return "=" + value, help
}
