package conform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown returns the result for docs/simulator.md: how many answers agree, by area.
func (c *Conformance) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d agree (%.1f %%).\n\n| about | asked | agree | |\n|---|---:|---:|---:|\n", c.Agree, c.Total, 100*float64(c.Agree)/float64(c.Total))
	differ := map[string]int{}
	for _, d := range c.Differences {
		differ[d.Area]++
	}
	asked := map[string]int{}
	for area, n := range c.areas {
		asked[tree(area)] += n
		if tree(area) != area {
			differ[tree(area)] += differ[area]
		}
	}
	whole := 0
	for _, area := range slices.Sorted(maps.Keys(asked)) {
		n, agree := asked[area], asked[area]-differ[area]
		if agree == n {
			whole += n
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", area, n, agree, share(agree, n))
	}
	fmt.Fprintf(&b, "| all others | %d | %d | %s |\n", whole, whole, share(whole, whole))
	return b.String()
}

// tree is where an area is listed: a large one by itself, others with their first part.
func tree(area string) string {
	switch {
	case slices.Contains([]string{"/nodes/{node}/qemu", "/nodes/{node}/storage", "/nodes/{node}/tasks"}, area):
		return area
	case !strings.HasPrefix(area, "/"):
		return area
	}
	return "/" + strings.SplitN(area, "/", 3)[1]
}
