package pvesim

import (
	"fmt"
	"time"
)

// unlikelyHandlers are of calls that a client has no use for here.
func unlikelyHandlers() map[string]handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]handler{
		"POST " + vm + "/dbus-vmstate":   (*call).dbusState,
		"POST " + vm + "/remote_migrate": (*call).remoteMigrate,
		"GET " + vm + "/rrd":             (*call).vmPicture,
	}
}

func (c *call) dbusState() (any, error) {
	v := c.s.vms[c.vmid()]
	if v == nil || !v.running || v.node != c.param("node") {
		return nil, badParam("node", fmt.Sprintf("VM %d not running locally on node '%s'", c.vmid(), c.param("node")))
	}
	return nil, nil
}

func (c *call) remoteMigrate() (any, error) {
	if _, err := c.vm(); err != nil {
		return nil, err
	}
	return nil, die("migration to other clusters is not simulated")
}

// firstRound is how long pvestatd takes to see a new VM at the latest.
const firstRound = 10 * time.Second

// recorded refuses the history of a VM that pvestatd has not yet seen.
func (v *vm) recorded(s *state) error {
	if time.Since(v.ctime) < time.Duration(float64(firstRound)/s.opts.Speed) {
		return noHistory(v.id)
	}
	return nil
}

func (c *call) vmPicture() (any, error) {
	v, err := c.vm()
	if err != nil { // nobody asks whether there is one
		return nil, noHistory(c.vmid())
	}
	if err := v.recorded(c.s); err != nil {
		return nil, err
	}
	return map[string]any{"filename": fmt.Sprintf("/var/lib/rrdcached/db/pve-vm-9.0/%d_%s_%s_%s.png", v.id, c.param("ds"), c.param("timeframe"), "AVERAGE")}, nil
}
