package clusterfile

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// replacedValues warns of values that replace ours; those of the hub are checked by their
// meaning (chartValues).
func (r *resolver) replacedValues() {
	replaced := platform.Replaced(r.spec)
	for _, part := range sortedNames(replaced) {
		r.Warn(r.MemberAt(&r.spec.Platform.Charts.Values, part), fmt.Sprintf("charts.values.%s replaces what the other keys of this file set: %s", part, suggest.Few(replaced[part])),
			"remove it, unless that is what you want")
	}
}
