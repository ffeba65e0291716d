package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// SDN's controllers and fabrics are kept, wait until they are applied, and are read as
// they run; no packet ever follows them. There are no zones and no virtual networks.

// The files of SDN that there are here. Nodes of fabrics are FABRIC_NODE in the file of
// the fabrics.
const (
	sdnControllers = "controllers"
	sdnFabrics     = "fabrics"
	sdnNodes       = "nodes"
)

func sdnHandlers() map[string]handler {
	all := map[string]handler{
		"PUT /cluster/sdn":           (*call).applySDN,
		"POST /cluster/sdn/lock":     (*call).lockSDN,
		"DELETE /cluster/sdn/lock":   (*call).unlockSDN,
		"POST /cluster/sdn/rollback": (*call).rollbackSDN,
	}
	maps.Copy(all, controllerHandlers())
	maps.Copy(all, fabricHandlers())
	return all
}

// copied is a copy of all files: sections are never changed in place.
func copied(files map[string]sdnSections) map[string]sdnSections {
	out := map[string]sdnSections{}
	for file, sections := range files {
		out[file] = maps.Clone(sections)
	}
	return out
}

// read are the sections of a file as a call wants them: as they shall be, as they run,
// or as the one differs from the other (PVE/Network/SDN.pm, pending_config).
func (c *call) read(file string) sdnSections {
	sdn := &c.s.sdn
	switch {
	case c.p.bool("pending"):
		return pendingSDN(sdn.running[file], sdn.configured(file))
	case c.p.bool("running"):
		return sdn.running[file]
	}
	return sdn.configured(file)
}

func pendingSDN(running, config sdnSections) sdnSections {
	out := sdnSections{}
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
func (c *call) inSDN(what string, do func() error) error {
	err := error(nil)
	if lock := c.s.sdn.lock; lock != "" && c.param("lock-token") != lock {
		err = die("invalid lock token provided! at /usr/share/perl5/PVE/Network/SDN.pm line 291.")
	} else {
		err = do()
	}
	if err != nil {
		return die("%s: %s", what, err)
	}
	return nil
}

func (c *call) lockSDN() (any, error) {
	err := c.inSDN("could not acquire lock for SDN config", func() error {
		sdn := &c.s.sdn
		for _, e := range pendingSDN(sdn.running[sdnControllers], sdn.configured(sdnControllers)) { // fabrics are not asked
			if e["pending"] != nil && !c.p.bool("allow-pending") {
				return die("configuration has pending changes at /usr/share/perl5/PVE/API2/Network/SDN.pm line 150.")
			}
		}
		sdn.lock = c.s.uuid()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.s.sdn.lock, nil
}

func (c *call) unlockSDN() (any, error) {
	if c.p.bool("force") {
		c.s.sdn.lock = ""
		return nil, nil
	}
	return nil, c.inSDN("could not release lock", func() error { c.s.sdn.lock = ""; return nil })
}

// releaseSDN gives the lock up whose token the call has, unless it says not to.
func (c *call) releaseSDN() {
	if c.param("lock-token") != "" && c.param("release-lock") != "0" {
		c.s.sdn.lock = ""
	}
}

func (c *call) rollbackSDN() (any, error) {
	return nil, c.inSDN("could not rollback SDN configuration", func() error {
		c.s.sdn.config = copied(c.s.sdn.running)
		c.releaseSDN()
		return nil
	})
}

// applySDN lets run what is configured; then every node loads its network again.
func (c *call) applySDN() (any, error) {
	err := c.inSDN("could not commit SDN config", func() error {
		c.s.sdn.running = copied(c.s.sdn.config)
		c.releaseSDN()
		return nil
	})
	if err != nil {
		return nil, err
	}
	nodes := c.s.nodes()
	c.p["node"] = nodes[:1] // who was asked
	return c.startTask("reloadnetworkall", "", func(w worker) error {
		for _, node := range nodes {
			w.log("%s: reloading network config", node)
			if err := w.sleep(reloadTime); err != nil {
				return err
			}
		}
		return nil
	})
}

// reloadTime is how long a node takes to begin to load its network again.
const reloadTime = 500 * time.Millisecond
