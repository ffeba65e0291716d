package clusterwide

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for what is of no node: lists of everything, options, high
// availability, servers of metrics, and files that are kept and mean nothing here.
func Endpoints() map[string]world.Handler {
	all := optionHandlers()
	for _, some := range []map[string]world.Handler{haRuleHandlers(), metricHandlers(), registerHandlers()} {
		maps.Copy(all, some)
	}
	return all
}
