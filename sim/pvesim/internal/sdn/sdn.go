package sdn

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for SDN.
func Endpoints() map[string]world.Handler {
	all := zoneHandlers()
	maps.Copy(all, map[string]world.Handler{"GET " + ipamStatus: listLeases})
	return all
}
