package console

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
)

// mark is the first character of a plan's line.
func mark(it converge.Item) string {
	switch it.Verdict {
	case converge.Failed:
		return "!"
	case converge.Deferred, converge.Wait:
		return "…"
	}
	switch it.Diff.Effect() {
	case drift.Create:
		return "+"
	case drift.Remove:
		return "-"
	case drift.Replace:
		return "±"
	default:
		return "~"
	}
}

// Plan prints what a run would do, and returns nothing that is not in the plan.
func (c *Console) Plan(p *converge.Plan) error {
	if c.JSON {
		return c.planJSON(p)
	}
	count := map[converge.Verdict]int{}
	var deferred []string
	for _, it := range p.Items {
		count[it.Verdict]++
		switch it.Verdict {
		case converge.Clean:
		case converge.Deferred:
			deferred = append(deferred, it.Step)
		case converge.Failed:
			_, _ = fmt.Fprintf(c.Data, "%s %-24s could not be looked at: %s\n", mark(it), it.Step, oneLine(it.Err.Error()))
		default:
			c.planItem(it)
		}
	}
	if len(deferred) > 0 {
		_, _ = fmt.Fprintf(c.Data, "… %d more steps can be looked at only after these: %s\n", len(deferred), folded(deferred))
	}
	if !p.Changes() && count[converge.Failed] == 0 {
		_, _ = fmt.Fprintf(c.Data, "Nothing to change: %d steps looked, all as asked.\n", len(p.Items))
		return nil
	}
	_, _ = fmt.Fprintf(c.Data, "\n%d to change, %d to wait for, %d later, %d as asked.\n",
		count[converge.Change], count[converge.Wait], count[converge.Deferred], count[converge.Clean])
	return nil
}

// planItem prints a change: alone on its line, or a line for each field.
func (c *Console) planItem(it converge.Item) {
	if len(it.Diff) == 1 {
		_, _ = fmt.Fprintf(c.Data, "%s %-24s %s\n", mark(it), it.Step, it.Diff[0])
		return
	}
	_, _ = fmt.Fprintf(c.Data, "%s %s\n", mark(it), it.Step)
	for _, f := range it.Diff {
		_, _ = fmt.Fprintf(c.Data, "    %s\n", f)
	}
}

func (c *Console) planJSON(p *converge.Plan) error {
	enc := json.NewEncoder(c.Data)
	for _, it := range p.Items {
		line := struct {
			converge.Item
			Error string `json:"error,omitempty"`
		}{Item: it}
		if it.Err != nil {
			line.Error = it.Err.Error()
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// folded turns vm/a, vm/b, guest/a into "vm (2), guest (1)".
func folded(steps []string) string {
	var order []string
	count := map[string]int{}
	for _, s := range steps {
		kind, _, _ := strings.Cut(s, "/")
		if count[kind] == 0 {
			order = append(order, kind)
		}
		count[kind]++
	}
	for i, kind := range order {
		if n := count[kind]; n > 1 {
			order[i] = fmt.Sprintf("%s ×%d", kind, n)
		}
	}
	return strings.Join(order, ", ")
}
