package pvesim

import "maps"

// runningHandlers answer for machines that run, or shall, and for their guest agents.
func runningHandlers() map[string]handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	all := map[string]handler{
		"POST " + vm + "/status/start":    (*call).startVM,
		"POST " + vm + "/status/stop":     (*call).stopVM,
		"POST " + vm + "/status/shutdown": (*call).shutdownVM,
		"POST " + vm + "/status/reboot":   (*call).rebootVM,
		"POST " + vm + "/status/reset":    (*call).resetVM,
	}
	maps.Copy(all, runStateHandlers())
	maps.Copy(all, agentHandlers())
	maps.Copy(all, unlikelyHandlers())
	return all
}
