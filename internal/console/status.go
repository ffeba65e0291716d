package console

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// Status prints a plan as the state of things: what is wrong first, then a line for
// each node. It reports whether anything is wrong.
func (c *Console) Status(p *converge.Plan) (wrong bool) {
	type subjectState struct {
		good, bad, unknown []string
	}
	var order []string
	states := map[string]*subjectState{}
	for _, it := range p.Items {
		name := subject(it.Step)
		s := states[name]
		if s == nil {
			s = &subjectState{}
			states[name] = s
			order = append(order, name)
		}
		what := strings.TrimSuffix(strings.TrimSuffix(it.Step, name), "/")
		if what == "" {
			what = name
		}
		switch it.Verdict {
		case converge.Clean:
			s.good = append(s.good, what)
		case converge.Deferred:
			s.unknown = append(s.unknown, what)
		case converge.Failed:
			s.bad = append(s.bad, what)
			_, _ = fmt.Fprintf(c.Data, "✗ %s: %s\n", it.Step, oneLine(it.Err.Error()))
		default:
			s.bad = append(s.bad, what)
			_, _ = fmt.Fprintf(c.Data, "✗ %s: %s\n", it.Step, oneLine(it.Diff.String()))
		}
	}
	t := Table{Header: []string{"", "PART", "AS ASKED", "NOT AS ASKED", "NOT SEEN"}}
	for _, name := range order {
		s := states[name]
		mark := "✓"
		if len(s.bad)+len(s.unknown) > 0 {
			mark, wrong = "✗", true
		}
		t.Add(mark, name, strings.Join(s.good, " "), strings.Join(s.bad, " "), strings.Join(s.unknown, " "))
	}
	if wrong {
		_, _ = fmt.Fprintln(c.Data)
	}
	c.Table(t)
	return wrong
}

// Progress shows what one long thing is at: in place on a terminal, as lines
// elsewhere. An empty text takes the line away.
func (c *Console) Progress(text string) {
	switch {
	case c.Live && text == "":
		_, _ = fmt.Fprint(c.Talk, "\r\x1b[K")
	case c.Live:
		_, _ = fmt.Fprintf(c.Talk, "\r\x1b[K\x1b[36m%s\x1b[0m", oneLine(text))
	case text != "" && !c.JSON:
		_, _ = fmt.Fprintln(c.Talk, oneLine(text))
	}
}
