package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/drift"
)

// yours marks what of a release's differences comes from charts.values.
func yours(d drift.Diff, values map[string]any) drift.Diff {
	out := slices.Clone(d)
	for i, f := range out {
		path, isValue := strings.CutPrefix(f.Path, "values/")
		switch {
		case f.Note != "":
		case isValue && saysOf(values, path):
			out[i].Note = "your charts.values"
		case f.Effect == drift.Create && len(values) > 0:
			out[i].Note = "with your charts.values: " + few(leafKeys(values, ""))
		}
	}
	return out
}

// saysOf reports whether values say something of a path, whose keys may have slashes.
func saysOf(values map[string]any, path string) bool {
	for key, v := range values {
		rest, below := strings.CutPrefix(path, key+"/")
		switch deeper, isMap := v.(map[string]any); {
		case path == key, below && !isMap:
			return true
		case below && saysOf(deeper, rest):
			return true
		}
	}
	return false
}

// leafKeys are the keys of values, dotted, in order.
func leafKeys(values map[string]any, at string) []string {
	var out []string
	for _, key := range sortedNames(values) {
		if below, ok := values[key].(map[string]any); ok && len(below) > 0 {
			out = append(out, leafKeys(below, at+key+".")...)
		} else {
			out = append(out, at+key)
		}
	}
	return out
}

// few names the first of many.
func few(names []string) string {
	const most = 4
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// replacedValues warns of values that take the place of ours; the hub's, where ours are
// more than settings, are looked at by their meaning (chartValues).
func (r *resolver) replacedValues() {
	values := r.spec.Platform.Charts.Values
	bare := *r.spec
	bare.Platform.Charts.Values = nil
	ours, err := bare.parts(false)
	if len(values) == 0 || err != nil { // which is said in its place
		return
	}
	for _, p := range ours {
		if p.Release == nil || p.Name == "jupyterhub" {
			continue
		}
		if keys := replacedKeys(p.Release.Values, values[p.Name], ""); len(keys) > 0 {
			r.warn(r.marks[member{&r.raw.Charts.Values, p.Name}].at, fmt.Sprintf("charts.values.%s replaces what the other keys of this file make: %s", p.Name, few(keys)),
				"remove it, unless that is what you want")
		}
	}
}

// replacedKeys are the keys of ours to which theirs give another value, dotted, in order.
func replacedKeys(ours, theirs map[string]any, at string) []string {
	var out []string
	for _, key := range sortedNames(theirs) {
		have, is := ours[key]
		below, isMap := have.(map[string]any)
		over, overMap := theirs[key].(map[string]any)
		switch {
		case !is:
		case isMap && overMap:
			out = append(out, replacedKeys(below, over, at+key+".")...)
		case fmt.Sprint(have) != fmt.Sprint(theirs[key]): // numbers have several types
			out = append(out, at+key)
		}
	}
	return out
}
