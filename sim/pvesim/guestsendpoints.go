package pvesim

import "maps"

// guestHandlers answer for the making, copying, moving and end of guests, one or many.
func guestHandlers() map[string]handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	all := map[string]handler{
		"POST /nodes/{node}/qemu":   (*call).createVM,
		"DELETE " + vm:              (*call).destroyVM,
		"POST " + vm + "/clone":     (*call).cloneVM,
		"POST " + vm + "/template":  (*call).makeTemplate,
		"POST " + vm + "/move_disk": (*call).moveDisk,
		"GET " + vm + "/migrate":    (*call).mayMigrate,
		"POST " + vm + "/migrate":   (*call).migrate,
	}
	for _, some := range []map[string]handler{snapshotHandlers(), bulkHandlers(), bulkGuestHandlers(), containerHandlers()} {
		maps.Copy(all, some)
	}
	return all
}
