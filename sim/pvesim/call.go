package pvesim

import "github.com/cps-gpu/homelab/sim/guest"

// call is one request on its way.
type call struct {
	s      *state
	method string
	path   string
	spec   *method
	route  string // the method's name
	p      params // of path, query and body
	who    identity
	fault  *Fault
	upload *upload // of a multipart request
	local  bool    // by a program on the host, which does it in its own process

	withToken bool // a token came with a call that needs nobody to be known
}

// handler answers one method of the API. It runs with the Sim's mu held.
type handler func(c *call) (any, error)

func (c *call) param(name string) string { return c.p.get(name) }

func (c *call) vmid() int { return atoi(c.param("vmid")) }

func (c *call) host() *host { return c.s.hosts[c.param("node")] }

func (c *call) worker() worker { return worker{s: c.s} }

// guestFaults are those that the request's rule has for the guest it starts.
func (c *call) guestFaults() *guest.Faults {
	if c.fault == nil {
		return nil
	}
	return c.fault.rule.Guest
}

// vm returns the VM that a call is about.
func (c *call) vm() (*vm, error) { return c.s.load(c.vmid(), c.param("node")) }

func (c *call) storage() (*storage, error) {
	st := c.host().storages[c.param("storage")]
	if st != nil {
		return st, nil
	}
	if all, _ := c.s.storagesByName(); all[c.param("storage")] != nil {
		return nil, die("storage '%s' is not available on node '%s'", c.param("storage"), c.param("node"))
	}
	return nil, die("storage '%s' does not exist", c.param("storage"))
}

// onlyRoot is what a path in the file system is answered with.
func (c *call) onlyRoot() error {
	if c.who.root() {
		return nil
	}
	return die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.")
}

// subdirs answers for a directory of the API: what is below it, each under the key
// that the schema has for it there.
func subdirs(key string, names ...string) handler {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = map[string]any{key: name}
	}
	return func(*call) (any, error) { return out, nil }
}
