package guests

import (
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func containerHandlers() map[string]world.Handler {
	const containers = "/nodes/{node}/lxc"
	gone := func(c *world.Call) (any, error) {
		return nil, answer.Die("Configuration file 'nodes/%s/lxc/%s.conf' does not exist", c.Param("node"), c.Param("vmid"))
	}
	return map[string]world.Handler{ // there are none
		"GET " + containers:                            func(*world.Call) (any, error) { return []any{}, nil },
		"GET " + containers + "/{vmid}":                gone,
		"GET " + containers + "/{vmid}/config":         gone,
		"GET " + containers + "/{vmid}/status/current": gone,
	}
}
