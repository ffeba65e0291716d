package running

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for machines that run, or shall, and for their guest agents.
func Endpoints() map[string]world.Handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	all := map[string]world.Handler{
		"POST " + vm + "/status/start":    startVM,
		"POST " + vm + "/status/stop":     stopVM,
		"POST " + vm + "/status/shutdown": shutdownVM,
		"POST " + vm + "/status/reboot":   rebootVM,
		"POST " + vm + "/status/reset":    resetVM,
	}
	maps.Copy(all, runStateHandlers())
	maps.Copy(all, agentHandlers())
	maps.Copy(all, unlikelyHandlers())
	return all
}
