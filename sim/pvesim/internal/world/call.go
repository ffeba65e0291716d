package world

import (
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

// Call is one request on its way.
type Call struct {
	State  *State
	Method string
	Path   string
	Spec   *schema.Method
	Route  string         // the method's name
	Params request.Params // of path, query and body
	Who    Identity
	Fault  *Fault
	Upload *request.Upload // of a multipart request
	Local  bool            // by a program on the host, which does it in its own process

	WithToken bool // a token came with a call that needs nobody to be known
}

// Handler answers one method of the API. It runs with the State's lock held.
type Handler func(c *Call) (any, error)

// Param is a parameter's value; empty where it was not given.
func (c *Call) Param(name string) string { return c.Params.Get(name) }

// VMID is the number of the machine that a call is about.
func (c *Call) VMID() int { return schema.Atoi(c.Param("vmid")) }

// Host is the node that a call is about.
func (c *Call) Host() *Host { return c.State.Hosts[c.Param("node")] }

// Worker does a call's work while its client waits.
func (c *Call) Worker() Worker { return Worker{State: c.State} }

// GuestFaults are those that the request's rule has for the guest it starts.
func (c *Call) GuestFaults() *guest.Faults {
	if c.Fault == nil {
		return nil
	}
	return c.Fault.Rule.Guest
}

// VM returns the VM that a call is about.
func (c *Call) VM() (*VM, error) { return c.State.Load(c.VMID(), c.Param("node")) }

// Storage is the storage that a call is about, where its node has that.
func (c *Call) Storage() (*Storage, error) {
	st := c.Host().Stores[c.Param("storage")]
	if st != nil {
		return st, nil
	}
	if all, _ := c.State.StoragesByName(); all[c.Param("storage")] != nil {
		return nil, answer.Die("storage '%s' is not available on node '%s'", c.Param("storage"), c.Param("node"))
	}
	return nil, answer.Die("storage '%s' does not exist", c.Param("storage"))
}

// OnlyRoot is what a path in the file system is answered with.
func (c *Call) OnlyRoot() error {
	if c.Who.Root() {
		return nil
	}
	return answer.Die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.")
}

// Subdirs answers for a directory of the API: what is below it, each under the key
// that the schema has for it there.
func Subdirs(key string, names ...string) Handler {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = map[string]any{key: name}
	}
	return func(*Call) (any, error) { return out, nil }
}
