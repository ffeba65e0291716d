package pvesim

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// handler answers one method of the API. It runs with the Sim's mu held.
type handler func(c *call) (any, error)

// call is one request on its way.
type call struct {
	s      *Sim
	method string
	path   string
	spec   *method
	route  string // the method's name
	p      params // of path, query and body
	who    identity
	fault  *Fault
	upload *upload // of a multipart request
	local  bool    // by a program on the host, which does it in its own process
}

func (c *call) param(name string) string { return c.p.get(name) }

func (c *call) vmid() int { return atoi(c.param("vmid")) }

func (c *call) host() *host { return c.s.hosts[c.param("node")] }

func (c *call) worker() worker { return worker{s: c.s} }

// route is a node of the tree of paths.
type route struct {
	next     map[string]*route
	variable *route
	name     string // of the variable that leads here
	handlers map[string]handler
	specs    map[string]*method
}

// loadRoutes builds the tree once, for every Sim: from the methods that have code
// here. One that Proxmox's schema does not know is a mistake of ours that every
// test finds at once.
var loadRoutes = sync.OnceValue(func() *route {
	root := &route{}
	methods := loadSchema().Methods
	for name, h := range handlers() {
		spec := methods[name]
		if spec == nil {
			panic("pvesim: no schema for " + name)
		}
		verb, path, _ := strings.Cut(name, " ")
		r := root.at(strings.Split(strings.Trim(path, "/"), "/"))
		if r.handlers == nil {
			r.handlers, r.specs = map[string]handler{}, map[string]*method{}
		}
		r.handlers[verb], r.specs[verb] = h, spec
	}
	return root
})

func (r *route) at(parts []string) *route {
	for _, part := range parts {
		if name, isVariable := strings.CutPrefix(part, "{"); isVariable {
			if r.variable == nil {
				r.variable = &route{name: strings.TrimSuffix(name, "}")}
			}
			r = r.variable
			continue
		}
		if r.next == nil {
			r.next = map[string]*route{}
		}
		if r.next[part] == nil {
			r.next[part] = &route{}
		}
		r = r.next[part]
	}
	return r
}

// find walks an escaped path. A volume's name takes the whole rest of it.
func (r *route) find(escaped string, vars params) *route {
	parts := strings.Split(strings.Trim(escaped, "/"), "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return nil
		}
		switch {
		case r.next[plain] != nil:
			r = r.next[plain]
		case r.variable != nil && r.variable.name == "volume":
			rest, err := url.PathUnescape(strings.Join(parts[i:], "/"))
			if err != nil {
				return nil
			}
			vars["volume"] = []string{rest}
			return r.variable
		case r.variable != nil:
			r = r.variable
			vars[r.name] = []string{plain}
		default:
			return nil
		}
	}
	return r
}

// dispatch finds the method, asks who may, checks the parameters and does it:
// the order in which Proxmox goes.
func (s *Sim) dispatch(c *call, escaped string) (any, error) {
	vars := params{}
	r := s.routes.find(escaped, vars)
	if r == nil || r.handlers[c.method] == nil || s.absent(r.specs[c.method].name) {
		return nil, fail(http.StatusNotImplemented, "Method '"+c.method+" "+c.path+"' not implemented")
	}
	for k, v := range vars {
		c.p[k] = v
	}
	c.spec = r.specs[c.method]
	c.route = c.spec.name
	if err := s.permit(c); err != nil {
		if c.upload != nil {
			err = &apiError{status: http.StatusForbidden, text: strings.TrimPrefix(err.Error(), "403 "), bare: true}
		}
		return nil, err
	}
	if node := c.param("node"); node != "" && node != "localhost" && s.hosts[node] == nil {
		return nil, die("hostname lookup '%s' failed - failed to get address info for: %s: Temporary failure in name resolution", node, node)
	}
	if err := c.reachable(); err != nil {
		return nil, err
	}
	if errs := c.spec.check(c.p); errs != nil {
		return nil, &apiError{status: http.StatusBadRequest, text: "Parameter verification failed.", params: errs}
	}
	return c.inDaemon(func() (any, error) { return c.underUserLock(r.handlers[c.method]) })
}
