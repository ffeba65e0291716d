package platform

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// replacedValues lists the values of charts, by part and dotted, to which charts.values of the file gives
// another value than its other keys. The hub's are left out: see jupyterhub.Hub.RemovedSettings.
func replacedValues(s *spec.Spec) map[string][]string {
	if len(s.Platform.Charts.Values) == 0 {
		return nil
	}
	bare := *s
	bare.Platform.Charts.Values = nil
	ours, err := Pieces(&bare, false)
	if err != nil { // which is reported at its place
		return nil
	}
	out := map[string][]string{}
	for _, p := range ours {
		if p.Release == nil || p.Name == "jupyterhub" {
			continue
		}
		if keys := replacedKeys(p.Release.Values, s.Platform.Charts.Values[p.Name], ""); len(keys) > 0 {
			out[p.Name] = keys
		}
	}
	return out
}

// replacedKeys returns our keys to which theirs give another value, dotted, in order.
func replacedKeys(ours, theirs map[string]any, at string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
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
