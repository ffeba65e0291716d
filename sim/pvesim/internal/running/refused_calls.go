package running

import (
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// unlikelyHandlers are of calls that a client has no use for here.
func unlikelyHandlers() map[string]world.Handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]world.Handler{
		"POST " + vm + "/dbus-vmstate":   dbusState,
		"POST " + vm + "/remote_migrate": remoteMigrate,
		"GET " + vm + "/rrd":             vmPicture,
	}
}

func dbusState(c *world.Call) (any, error) {
	v := c.State.VMs[c.VMID()]
	if v == nil || !v.Running || v.Node != c.Param("node") {
		return nil, answer.BadParam("node", fmt.Sprintf("VM %d not running locally on node '%s'", c.VMID(), c.Param("node")))
	}
	return nil, nil
}

func remoteMigrate(c *world.Call) (any, error) {
	if _, err := c.VM(); err != nil {
		return nil, err
	}
	return nil, answer.Die("migration to other clusters is not simulated")
}

// firstRound is how long pvestatd takes to see a new VM at the latest.
const firstRound = 10 * time.Second

// checkHistory refuses the history of a VM that pvestatd has not yet seen.
func checkHistory(v *world.VM, s *world.State) error {
	if time.Since(v.Created) < time.Duration(float64(firstRound)/s.Options.Speed) {
		return nodes.NoHistory(v.ID)
	}
	return nil
}

func vmPicture(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil { // nobody asks whether there is one
		return nil, nodes.NoHistory(c.VMID())
	}
	if err := checkHistory(v, c.State); err != nil {
		return nil, err
	}
	return map[string]any{"filename": fmt.Sprintf("/var/lib/rrdcached/db/pve-vm-9.0/%d_%s_%s_%s.png", v.ID, c.Param("ds"), c.Param("timeframe"), "AVERAGE")}, nil
}
