package console

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/cps-gpu/homelab/converge"
)

// marks of a plan's lines.
const (
	unseen = "!"
	later  = "…"
	update = "~"
)

// mark shows the kind of a difference. A service that is started again exists already, so it
// counts as an update.
func mark(f converge.Field) string {
	switch f.Effect {
	case converge.Create:
		if f.Have != "" {
			return update
		}
		return "+"
	case converge.Remove:
		return "-"
	case converge.Replace:
		return "±"
	default:
		return update
	}
}

// markPaint is the colour of a mark.
func (p paint) mark(mark string) string {
	switch mark {
	case "+":
		return p.green(mark)
	case "-", "±", unseen:
		return p.red(mark)
	case later:
		return p.faint(mark)
	default:
		return p.yellow(mark)
	}
}

// planLine is one difference: its subject, its change and its reason. Nodes that share a
// change may have different reasons: those are listed below it by node.
type planLine struct {
	mark, what, text string
	note             string
	own              []planNote
}

type planNote struct{ node, text string }

// Plan prints what a run would do, by node. Nodes with the same changes are grouped.
func (c *Console) Plan(p *converge.Plan) error {
	if c.JSON {
		return c.planJSON(p)
	}
	steps := make([]string, len(p.Items))
	items := map[string][]converge.Item{}
	for i, it := range p.Items {
		it.Step = c.line(it.Step)
		steps[i] = it.Step
		name, _ := Owner(it.Step)
		items[name] = append(items[name], it)
	}
	var all []group[[]planLine]
	for _, name := range partsOf(steps) {
		if lines := c.planLines(items[name]); len(lines) > 0 {
			all = append(all, group[[]planLine]{[]string{name}, lines})
		}
	}
	var out strings.Builder
	groups := foldPlan(all)
	names := 0 // the column for nodes with only one change
	for _, g := range groups {
		if len(g.what) == 1 {
			names = max(names, runewidth.StringWidth(shortList(g.names)))
		}
	}
	for _, g := range groups {
		if len(g.what) == 1 && len(g.what[0].own) == 0 && names < 24 {
			c.planSingle(&out, g, names)
		} else {
			c.planGroup(&out, g)
		}
	}
	if len(all) > 0 {
		out.WriteString("\n")
	}
	c.planSummary(&out, p)
	_, err := io.WriteString(c.Data, out.String())
	return err
}

// foldPlan groups nodes with the same changes.
func foldPlan(all []group[[]planLine]) []group[[]planLine] {
	of := map[string][]planLine{}
	for _, f := range all {
		of[f.names[0]] = f.what
	}
	groups := fold(all, func(lines []planLine) string {
		var key strings.Builder
		for _, l := range lines {
			fmt.Fprintf(&key, "%q %q %q\n", l.mark, l.what, l.text)
		}
		return key.String()
	})
	for g := range groups {
		groups[g].what = slices.Clone(groups[g].what)
		for i := range groups[g].what {
			groups[g].what[i].addNotes(groups[g].names, func(node string) string { return of[node][i].note })
		}
	}
	return groups
}

// addNotes appends a note that all nodes share to the text, and lists different notes by node.
func (l *planLine) addNotes(nodes []string, note func(node string) string) {
	same := true
	for _, n := range nodes {
		same = same && note(n) == l.note
		l.own = append(l.own, planNote{n, note(n)})
	}
	if !same {
		return
	}
	l.own = nil
	if l.note != "" {
		l.text += " (" + l.note + ")"
	}
}

// planLines describes the changes of one node.
func (c *Console) planLines(items []converge.Item) []planLine {
	var lines []planLine
	var deferred []string
	for _, it := range items {
		_, what := Owner(it.Step)
		switch it.Verdict {
		case converge.Clean:
		case converge.Deferred:
			deferred = append(deferred, noBreak(what))
		case converge.Failed:
			lines = append(lines, planLine{mark: unseen, what: what, text: "could not be checked: " + c.line(fmt.Sprint(it.Err))})
		default:
			for _, f := range c.clean(it.Diff) {
				line := planLine{mark: mark(f), what: what, note: f.Note}
				f.Note = ""
				line.text = difference(f)
				if it.Verdict == converge.Wait {
					line.mark = later
				}
				lines, what = append(lines, line), ""
			}
		}
	}
	if len(deferred) > 0 {
		lines = append(lines, planLine{mark: later, what: "then", text: strings.Join(deferred, ", ")})
	}
	return lines
}

// clean makes a diff safe to print.
func (c *Console) clean(d converge.Diff) converge.Diff {
	out := make(converge.Diff, len(d))
	for i, f := range d {
		f.Path, f.Have, f.Want, f.Note = c.line(f.Path), c.line(f.Have), c.line(f.Want), c.line(f.Note)
		out[i] = f
	}
	return out
}

// planSingle prints nodes and the one change that they share.
func (c *Console) planSingle(out *strings.Builder, g group[[]planLine], names int) {
	l := g.what[0]
	fmt.Fprintf(out, "%s %s  %s  ", c.data.paint.mark(l.mark), c.data.paint.bold(runewidth.FillRight(shortList(g.names), names)), l.what)
	c.planText(out, l.text, 2+names+2+runewidth.StringWidth(l.what)+2)
}

// planText prints text at a column, its further lines below its first.
func (c *Console) planText(out *strings.Builder, text string, at int) {
	for i, line := range wrap(text, at, c.data.width()) {
		if i > 0 {
			out.WriteString(strings.Repeat(" ", at))
		}
		out.WriteString(c.data.paint.emphasize(line) + "\n")
	}
}

// mostNotes is how many nodes get a line of their own.
const mostNotes = 12

// planGroup prints the nodes that share their lines.
func (c *Console) planGroup(out *strings.Builder, g group[[]planLine]) {
	paint, width := c.data.paint, c.data.width()
	head, whats := g.what[0].mark, 0
	if g.names[0] == everywhere && head != later {
		head = update // removing a thing from the cluster does not remove the cluster
	}
	for _, l := range g.what {
		whats = max(whats, runewidth.StringWidth(l.what))
		switch {
		case l.mark == unseen:
			head = unseen
		case head != unseen && l.mark != head && l.mark != later:
			head = update
		}
	}
	for i, line := range wrap(shortList(g.names), 2, width) {
		if i > 0 {
			out.WriteString("  " + paint.bold(line) + "\n")
		} else {
			out.WriteString(paint.mark(head) + " " + paint.bold(line) + "\n")
		}
	}
	at := 8 + whats
	for _, l := range g.what {
		fmt.Fprintf(out, "    %s %s  ", paint.mark(l.mark), runewidth.FillRight(l.what, whats))
		c.planText(out, l.text, at)
		names := 0
		for _, own := range l.own {
			names = max(names, runewidth.StringWidth(own.node))
		}
		for i, own := range l.own {
			if i == mostNotes {
				fmt.Fprintf(out, "%sand %d more: -json shows all\n", strings.Repeat(" ", at), len(l.own)-i)
				break
			}
			fmt.Fprintf(out, "%s%s  ", strings.Repeat(" ", at), runewidth.FillRight(own.node, names))
			c.planText(out, own.text, at+names+2)
		}
	}
}

// emphasize highlights restarts and replacements.
func (p paint) emphasize(line string) string {
	for _, e := range []converge.Effect{converge.Restart, converge.Replace} {
		line = strings.ReplaceAll(line, e.String(), p.sgr("1;33", e.String()))
	}
	return line
}

// planSummary prints the counts and, last, the costs: what is destroyed and stopped, its
// contents, whose work ends. It names what needs a replacement, which a run does not do.
func (c *Console) planSummary(out *strings.Builder, p *converge.Plan) {
	count := map[converge.Verdict]int{}
	var replaced []string
	var costs []converge.Cost
	for _, it := range p.Items {
		count[it.Verdict]++
		costs = append(costs, it.Costs...)
		if it.Verdict == converge.Change && slices.ContainsFunc(it.Diff, func(f converge.Field) bool { return f.Effect == converge.Replace }) {
			replaced = append(replaced, it.Step)
		}
	}
	if !p.Changes() && count[converge.Failed] == 0 {
		fmt.Fprintf(out, "Nothing to change: all %d steps are up to date.\n", len(p.Items))
		return
	}
	var parts []string
	for _, x := range []struct {
		verdict converge.Verdict
		format  string
	}{
		{converge.Failed, "%d could not be checked"}, {converge.Change, "%d to change"}, {converge.Wait, "%d to wait for"},
		{converge.Deferred, "%d to check after that"}, {converge.Clean, "%d up to date"},
	} {
		if n := count[x.verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf(x.format, n))
		}
	}
	for _, line := range wrap(strings.Join(parts, ", ")+".", 0, c.data.width()) {
		out.WriteString(line + "\n")
	}
	if len(replaced) > 0 {
		label := converge.Replace.String()
		for i, line := range wrap(shortList(replaced), len(label)+2, c.data.width()) {
			head := c.data.paint.sgr("1;33", label) + ": "
			if i > 0 {
				head = strings.Repeat(" ", len(label)+2)
			}
			out.WriteString(head + line + "\n")
		}
	}
	out.WriteString(c.costs(c.data, costs))
}
