package conform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown returns the result for docs/simulator.md: how many answers agree, by area, and
// which differ and why.
func (c *Conformance) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d agree (%.1f %%).\n\n| about | asked | agree | |\n|---|---:|---:|---:|\n", c.Agree, c.Total, 100*float64(c.Agree)/float64(c.Total))
	differ := map[string]int{}
	why := map[string]int{}
	for _, d := range c.Differences {
		differ[d.Area]++
		why[d.Reason]++
	}
	for _, area := range slices.Sorted(maps.Keys(c.areas)) {
		n, agree := c.areas[area], c.areas[area]-differ[area]
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", area, n, agree, share(agree, n))
	}
	b.WriteString("\n| differ | why |\n|---:|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(&b, "| %d | %s |\n", why[reason], cell(reason))
	}
	return b.String()
}

// ExcusedMarkdown returns what a replay does not compare, for docs/simulator.md.
func ExcusedMarkdown() (string, error) {
	x, err := loadExcuses()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| not compared | where | why |\n|---|---|---|\n")
	groups := x.groups()
	for i, what := range []string{"the value, only its kind", "the order within a text", "the order of a list", "a piece of a text", "a line of a log"} {
		for _, r := range groups[i] {
			where := strings.TrimSpace(r.Scenario + " " + r.Asked + " " + r.Match)
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", what, cell(where), cell(r.Why))
		}
	}
	return b.String(), nil
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ") }
