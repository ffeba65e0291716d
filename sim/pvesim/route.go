package pvesim

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// route is a node of the tree of paths.
type route struct {
	next     map[string]*route
	variable *route
	name     string // of the variable that leads here
	handlers map[string]handler
	specs    map[string]*method
}

// loadRoutes builds the tree once, for every Sim: from all methods of Proxmox's
// schema, as one without code here refuses who may not call it and parameters that
// it does not take. Code for a method that the schema does not know is a mistake of
// ours that every test finds at once.
var loadRoutes = sync.OnceValue(func() *route {
	root := &route{}
	code, nothing := handlers(), refusers()
	for name, spec := range loadSchema().Methods {
		h := code[name]
		delete(code, name)
		if h == nil {
			h = nothing[name]
		}
		if h == nil {
			h = (*call).notHere
		}
		verb, path, _ := strings.Cut(name, " ")
		r := root.at(strings.Split(strings.Trim(path, "/"), "/"))
		if r.handlers == nil {
			r.handlers, r.specs = map[string]handler{}, map[string]*method{}
		}
		r.handlers[verb], r.specs[verb] = h, spec
	}
	for name := range code {
		panic("pvesim: no schema for " + name)
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

// find walks an unescaped path: what was %2F separates too, empty parts are none,
// and one with a blank in it is not a variable. A volume and an address take the whole rest
// (PVE/RESTHandler.pm, find_handler).
func (r *route) find(path string, vars params) *route {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i, part := range parts {
		switch {
		case r.next[part] != nil:
			r = r.next[part]
		case r.variable == nil || strings.ContainsFunc(part, unicode.IsSpace):
			return nil
		case r.variable.name == "volume" || r.variable.name == "cidr":
			vars[r.variable.name] = []string{strings.Join(parts[i:], "/")}
			return r.variable
		default:
			r = r.variable
			vars[r.name] = []string{part}
		}
	}
	return r
}

// notHere answers for a method that there is not.
func (c *call) notHere() (any, error) {
	return nil, fail(http.StatusNotImplemented, "Method '"+c.method+" "+c.path+"' not implemented")
}

// dispatch finds the method, asks who may, checks the parameters and does it:
// the order in which Proxmox goes.
func dispatch(c *call) (any, error) {
	s := c.s
	if c.method == http.MethodGet && strings.Trim(c.path, "/") == "" { // the schema does not have it (PVE/API2.pm)
		return subdirs("subdir", "version", "cluster", "nodes", "storage", "access", "pools")(c)
	}
	vars := params{}
	r := loadRoutes().find(c.path, vars)
	if r == nil || r.handlers[c.method] == nil || s.absent(r.specs[c.method].name) {
		return c.notHere()
	}
	for k, v := range vars {
		if c.p.has(k) && !slices.Equal(c.p[k], v) {
			return nil, badParam(k, "duplicate parameter (already defined in URI) with conflicting values!")
		}
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
	node := c.param("node")
	if strings.Contains(c.route, "/cluster/mapping/") && c.p.has("check-node") {
		node = c.param("check-node")
	}
	if c.route == "GET /nodes/{node}" || c.route == "POST /nodes/{node}/wakeonlan" { // any node that is asked answers
		node = ""
	}
	if node != "" && node != "localhost" && s.hosts[node] == nil && !strings.HasPrefix(c.route, "POST /cluster/ha/") {
		return nil, unknownHost(node)
	}
	if err := c.reachable(); err != nil {
		return nil, err
	}
	if h := s.hosts[c.param("node")]; h != nil && (strings.Contains(c.route, "/storage/") || strings.HasSuffix(c.route, "/status/start")) {
		h.seeFiles()
	}
	if errs := c.spec.check(c.p); errs != nil {
		return nil, &apiError{status: http.StatusBadRequest, text: "Parameter verification failed.", params: errs}
	}
	return c.inDaemon(func() (any, error) { return c.underUserLock(r.handlers[c.method]) })
}

// unknownHost is what looking up a host's address ends with. A part of a name that
// is longer than 63 letters is not even asked for.
func unknownHost(name string) error {
	why := "Temporary failure in name resolution"
	if slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return len(part) > 63 }) {
		why = "Name or service not known"
	}
	return die("hostname lookup '%s' failed - failed to get address info for: %s: %s", name, name, why)
}
