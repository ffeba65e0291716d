package config

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for machines' configuration and state.
func Endpoints() map[string]world.Handler {
	const (
		node = "/nodes/{node}"
		vm   = "/nodes/{node}/qemu/{vmid}"
	)
	all := map[string]world.Handler{
		"GET " + node + "/qemu":         listVMs,
		"GET " + vm + "/config":         getConfig,
		"PUT " + vm + "/config":         putConfig,
		"POST " + vm + "/config":        postConfig,
		"GET " + vm + "/pending":        getPending,
		"PUT " + vm + "/resize":         resizeDisk,
		"GET " + vm + "/status/current": currentStatus,
	}
	maps.Copy(all, cloudDriveHandlers())
	return all
}
