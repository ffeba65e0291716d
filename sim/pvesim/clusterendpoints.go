package pvesim

import "maps"

// clusterHandlers answer for what is of no node: lists of everything, options, high
// availability, servers of metrics, and files that are kept and mean nothing here.
func clusterHandlers() map[string]handler {
	all := moreClusterHandlers()
	for _, some := range []map[string]handler{haRuleHandlers(), metricHandlers(), registerHandlers()} {
		maps.Copy(all, some)
	}
	return all
}
