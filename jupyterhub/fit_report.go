package jupyterhub

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// String is the table: a line for each profile, a column for each pool.
func (r Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	heads := append([]string{"PROFILE"}, r.Pools...)
	fmt.Fprintln(w, strings.Join(append(heads, "AT ONCE"), "\t"))
	for _, row := range r.Rows {
		line := []string{row.Profile}
		for _, cell := range row.Cells {
			line = append(line, cell.String())
		}
		total := strconv.Itoa(row.Total)
		if row.Limit != "" {
			total += " (" + row.Limit + ")"
		}
		fmt.Fprintln(w, strings.Join(append(line, total), "\t"))
	}
	_ = w.Flush() // into memory
	return b.String()
}

// String returns the number, or why it is zero.
func (c Cell) String() string {
	if c.Count > 0 {
		return strconv.Itoa(c.Count)
	}
	return "- " + c.Reason
}

// Err refuses profiles that can never start, as [Problems].
func (r Report) Err() error {
	var all Problems
	for _, row := range r.Rows {
		if row.Total == 0 {
			all = append(all, Problem{Field: "Profiles[" + row.Profile + "]", Text: r.never(row)})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (r Report) never(row Row) string {
	if row.Limit != "" {
		return "none of its servers can ever start: one needs more than " + row.Limit
	}
	if len(row.Cells) == 0 {
		return "none of its servers can ever start: there are no nodes"
	}
	var why, largest []string
	for i, cell := range row.Cells {
		why = append(why, "on "+cmp.Or(r.Pools[i], "other nodes")+": "+cell.Reason)
		if cell.Largest != "" {
			largest = append(largest, cell.Largest+" (on "+cmp.Or(r.Pools[i], "other nodes")+")")
		}
	}
	text := "none of its servers can ever start: " + strings.Join(why, "; ")
	if len(largest) > 0 {
		text += ". The largest that fits: " + strings.Join(slices.Compact(largest), ", or ")
	}
	return text
}
