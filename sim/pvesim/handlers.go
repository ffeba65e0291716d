package pvesim

import "maps"

// handlers is the code behind each method that is served, in the schema's own terms.
func handlers() map[string]handler {
	all := map[string]handler{}
	for _, some := range []map[string]handler{
		accessHandlers(), nodesHandlers(), firewallHandlers(), sdnHandlers(), storageHandlers(), pciHandlers(), configHandlers(), runningHandlers(),
		guestHandlers(), consoleHandlers(), clusterHandlers(), indexHandlers(), nothingHandlers(),
	} {
		maps.Copy(all, some)
	}
	return all
}
