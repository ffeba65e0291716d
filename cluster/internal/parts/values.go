package parts

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// markUserValues marks the fields of a release's diff that come from charts.values.
func markUserValues(d converge.Diff, values map[string]any) converge.Diff {
	out := slices.Clone(d)
	for i, f := range out {
		path, isValue := strings.CutPrefix(f.Path, "values/")
		switch {
		case f.Note != "":
		case isValue && hasPath(values, path):
			out[i].Note = "your charts.values"
		case f.Effect == converge.Create && len(values) > 0:
			out[i].Note = "with your charts.values: " + suggest.FirstOf(leafKeys(values, ""))
		}
	}
	return out
}

// hasPath reports whether values contain a path; its keys may have slashes.
func hasPath(values map[string]any, path string) bool {
	for key, v := range values {
		rest, below := strings.CutPrefix(path, key+"/")
		switch deeper, isMap := v.(map[string]any); {
		case path == key, below && !isMap:
			return true
		case below && hasPath(deeper, rest):
			return true
		}
	}
	return false
}

// leafKeys are the keys of values, dotted, in order.
func leafKeys(values map[string]any, at string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if below, ok := values[key].(map[string]any); ok && len(below) > 0 {
			out = append(out, leafKeys(below, at+key+".")...)
		} else {
			out = append(out, at+key)
		}
	}
	return out
}
