package pvesim

import "maps"

// nodesHandlers answer for nodes: their state, settings, networks and tasks.
func nodesHandlers() map[string]handler {
	all := nodeHandlers()
	for _, some := range []map[string]handler{nodeConfigHandlers(), networkHandlers(), taskHandlers()} {
		maps.Copy(all, some)
	}
	return all
}
