package clusterfile

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// replacedValues warns of values that replace ours; those of the hub are checked by their
// meaning (chartValues).
func (r *resolver) replacedValues() {
	values := r.spec.Platform.Charts.Values
	bare := *r.spec
	bare.Platform.Charts.Values = nil
	ours, err := platform.Pieces(&bare, false)
	if len(values) == 0 || err != nil { // which is reported at its place
		return
	}
	for _, p := range ours {
		if p.Release == nil || p.Name == "jupyterhub" {
			continue
		}
		if keys := replacedKeys(p.Release.Values, values[p.Name], ""); len(keys) > 0 {
			r.Warn(r.MemberAt(&r.raw.Charts.Values, p.Name), fmt.Sprintf("charts.values.%s replaces what the other keys of this file set: %s", p.Name, suggest.Few(keys)),
				"remove it, unless that is what you want")
		}
	}
}

// replacedKeys returns our keys to which theirs give another value, dotted, in order.
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
