package nodes

import (
	"fmt"
	"slices"
	"strings"
)

// unifiedDiff is what `diff -u` says of a file and its successor, as one hunk.
func unifiedDiff(name, before, after string) string {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	a, b = a[:len(a)-1], b[:len(b)-1]
	common := make([][]int, len(a)+1) // how many lines the rests have in common
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := range slices.Backward(b) {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s.new\n@@ -1,%d +1,%d @@\n", name, name, len(a), len(b))
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out.WriteString(" " + a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out.WriteString("-" + a[i])
			i++
		default:
			out.WriteString("+" + b[j])
			j++
		}
	}
	return out.String()
}
