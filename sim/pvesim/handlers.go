package pvesim

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/clusterwide"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/consoles"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/firewall"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/guests"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/running"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/sdn"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// handlers is the code behind each method that is served, in the schema's own terms.
func handlers() map[string]world.Handler {
	all := map[string]world.Handler{}
	for _, room := range rooms() {
		maps.Copy(all, room)
	}
	return all
}

// rooms are the methods of each domain.
func rooms() []map[string]world.Handler {
	return []map[string]world.Handler{
		access.Endpoints(), nodes.Endpoints(), firewall.Endpoints(), sdn.Endpoints(), storages.Endpoints(), pci.Endpoints(),
		config.Endpoints(), running.Endpoints(), guests.Endpoints(), consoles.Endpoints(), clusterwide.Endpoints(),
		indexHandlers(), nothingHandlers(),
	}
}
