package sdn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// SDN's controllers and fabrics are kept, wait until they are applied, and are read as
// they run; no packet ever follows them. Virtual networks and the addresses in Proxmox's
// own IPAM are the model's: machines join them, and nobody makes or changes one.

// The files of SDN that there are here. Nodes of fabrics are FABRIC_NODE in the file of
// the fabrics.
const (
	sdnControllers = "controllers"
	sdnFabrics     = "fabrics"
	sdnNodes       = "nodes"
)

// Endpoints answer for SDN.
func Endpoints() map[string]world.Handler {
	all := map[string]world.Handler{
		"PUT /cluster/sdn":           applySDN,
		"POST /cluster/sdn/lock":     lockSDN,
		"DELETE /cluster/sdn/lock":   unlockSDN,
		"POST /cluster/sdn/rollback": rollbackSDN,
		"GET " + ipamStatus:          listLeases,
	}
	maps.Copy(all, controllerHandlers())
	maps.Copy(all, zoneHandlers())
	maps.Copy(all, fabricHandlers())
	return all
}

// copyFiles is a copy of all files: sections are never changed in place.
func copyFiles(files map[string]world.SDNSections) map[string]world.SDNSections {
	out := map[string]world.SDNSections{}
	for file, sections := range files {
		out[file] = maps.Clone(sections)
	}
	return out
}

// read are the sections of a file as a call wants them: as they shall be, as they run,
// or as the one differs from the other (PVE/Network/SDN.pm, pending_config).
func read(c *world.Call, file string) world.SDNSections {
	sdn := &c.State.SDN
	switch {
	case c.Params.Bool("pending"):
		return pendingSDN(sdn.Running[file], sdn.ConfigSections(file))
	case c.Params.Bool("running"):
		return sdn.Running[file]
	}
	return sdn.ConfigSections(file)
}

func pendingSDN(running, config world.SDNSections) world.SDNSections {
	out := world.SDNSections{}
	for id := range maps.All(running) {
		out[id] = pendingOne(running[id], config[id])
	}
	for id := range maps.All(config) {
		out[id] = pendingOne(running[id], config[id])
	}
	return out
}

func pendingOne(running, config map[string]any) map[string]any {
	out, pending, state := maps.Clone(running), map[string]any{}, ""
	if out == nil {
		out = map[string]any{}
	}
	for key, was := range running {
		value, is := config[key]
		switch {
		case config == nil:
			state = "deleted"
		case !is:
			pending[key], state = "deleted", "changed"
		case sdnText(was) != sdnText(value):
			state = "changed"
		}
	}
	for key, value := range config {
		was, ran := running[key]
		switch {
		case key == "type":
			out[key] = value
		case !ran || sdnText(was) != sdnText(value):
			pending[key] = value
		}
		switch {
		case running == nil:
			state = "new"
		case !ran:
			state = "changed"
		}
	}
	if state != "" {
		out["state"], out["pending"] = state, pending
	}
	return out
}

// sdnText is a value as two are compared (PVE/Network/SDN.pm, encode_value).
func sdnText(v any) string {
	if list, ok := v.([]string); ok {
		return strings.Join(slices.Sorted(slices.Values(list)), ",")
	}
	return fmt.Sprint(v)
}

// inSDN does something to the configuration of SDN, unless somebody else has locked it.
func inSDN(c *world.Call, what string, do func() error) error {
	err := error(nil)
	if lock := c.State.SDN.Lock; lock != "" && c.Param("lock-token") != lock {
		err = answer.Die("invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291.")
	} else {
		err = do()
	}
	if err != nil {
		return answer.Die("%s: %s", what, err)
	}
	return nil
}

func lockSDN(c *world.Call) (any, error) {
	err := inSDN(c, "could not acquire lock for SDN config", func() error {
		sdn := &c.State.SDN
		for _, e := range pendingSDN(sdn.Running[sdnControllers], sdn.ConfigSections(sdnControllers)) { // fabrics are not asked
			if e["pending"] != nil && !c.Params.Bool("allow-pending") {
				return answer.Die("configuration has pending changes at /usr/share/perl5/PVE/API2/Network/SDN.pm line 150.")
			}
		}
		sdn.Lock = c.State.UUID()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.State.SDN.Lock, nil
}

func unlockSDN(c *world.Call) (any, error) {
	if c.Params.Bool("force") {
		c.State.SDN.Lock = ""
		return nil, nil
	}
	return nil, inSDN(c, "could not release lock", func() error { c.State.SDN.Lock = ""; return nil })
}

// releaseSDN gives the lock up whose token the call has, unless it says not to.
func releaseSDN(c *world.Call) {
	if c.Param("lock-token") != "" && c.Param("release-lock") != "0" {
		c.State.SDN.Lock = ""
	}
}

func rollbackSDN(c *world.Call) (any, error) {
	return nil, inSDN(c, "could not rollback SDN configuration", func() error {
		c.State.SDN.Config = copyFiles(c.State.SDN.Running)
		releaseSDN(c)
		return nil
	})
}

// applySDN lets run what is configured; then every node loads its network again.
func applySDN(c *world.Call) (any, error) {
	err := inSDN(c, "could not commit SDN config", func() error {
		c.State.SDN.Running = copyFiles(c.State.SDN.Config)
		releaseSDN(c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	nodes := c.State.Nodes()
	c.Params["node"] = nodes[:1] // who was asked
	return c.StartTask("reloadnetworkall", "", func(w world.Worker) error {
		for _, node := range nodes {
			w.Log("%s: reloading network config", node)
			if err := w.Sleep(reloadTime); err != nil {
				return err
			}
		}
		return nil
	})
}

// reloadTime is how long a node takes to begin to load its network again.
const reloadTime = 500 * time.Millisecond
