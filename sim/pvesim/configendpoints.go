package pvesim

import "maps"

// configHandlers answer for machines' configuration and state.
func configHandlers() map[string]handler {
	const (
		node = "/nodes/{node}"
		vm   = "/nodes/{node}/qemu/{vmid}"
	)
	all := map[string]handler{
		"GET " + node + "/qemu":         (*call).listVMs,
		"GET " + vm + "/config":         (*call).getConfig,
		"PUT " + vm + "/config":         (*call).putConfig,
		"POST " + vm + "/config":        (*call).postConfig,
		"GET " + vm + "/pending":        (*call).getPending,
		"PUT " + vm + "/resize":         (*call).resizeDisk,
		"GET " + vm + "/status/current": (*call).currentStatus,
	}
	maps.Copy(all, cloudDriveHandlers())
	return all
}
