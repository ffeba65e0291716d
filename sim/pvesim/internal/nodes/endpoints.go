package nodes

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for nodes: their state, settings, networks and tasks.
func Endpoints() map[string]world.Handler {
	all := nodeHandlers()
	for _, some := range []map[string]world.Handler{nodeConfigHandlers(), networkHandlers(), taskHandlers()} {
		maps.Copy(all, some)
	}
	return all
}
