package guests

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for the making, copying, moving and end of guests, one or many.
func Endpoints() map[string]world.Handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	all := map[string]world.Handler{
		"POST /nodes/{node}/qemu":   createVM,
		"DELETE " + vm:              destroyVM,
		"POST " + vm + "/clone":     cloneVM,
		"POST " + vm + "/template":  makeTemplate,
		"POST " + vm + "/move_disk": moveDisk,
		"GET " + vm + "/migrate":    mayMigrate,
		"POST " + vm + "/migrate":   migrate,
	}
	for _, some := range []map[string]world.Handler{snapshotHandlers(), bulkHandlers(), containerHandlers()} {
		maps.Copy(all, some)
	}
	return all
}
