package pvesim

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hostshell"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// route is a node of the tree of paths.
type route struct {
	next     map[string]*route
	variable *route
	name     string // of the variable that leads here
	handlers map[string]world.Handler
	specs    map[string]*schema.Method
}

// loadRoutes builds the tree once, for every Sim: from all methods of Proxmox's
// schema, as one without code here refuses who may not call it and parameters that
// it does not take. Code for a method that the schema does not know is a mistake of
// ours that every test finds at once.
var loadRoutes = sync.OnceValue(func() *route {
	root := &route{}
	code, nothing := handlers(), refusers()
	for name, spec := range schema.Load().Methods {
		h := code[name]
		delete(code, name)
		if h == nil {
			h = nothing[name]
		}
		if h == nil {
			h = notHere
		}
		verb, path, _ := strings.Cut(name, " ")
		r := root.child(strings.Split(strings.Trim(path, "/"), "/"))
		if r.handlers == nil {
			r.handlers, r.specs = map[string]world.Handler{}, map[string]*schema.Method{}
		}
		r.handlers[verb], r.specs[verb] = h, spec
	}
	for name := range code {
		panic("pvesim: no schema for " + name)
	}
	return root
})

func (r *route) child(parts []string) *route {
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
func (r *route) find(path string, vars request.Params) *route {
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
func notHere(c *world.Call) (any, error) {
	return nil, answer.Fail(http.StatusNotImplemented, "Method '"+c.Method+" "+c.Path+"' not implemented")
}

// dispatch finds the method, asks who may, checks the parameters and does it:
// the order in which Proxmox goes.
func dispatch(c *world.Call) (any, error) {
	s := c.State
	if c.Method == http.MethodGet && strings.Trim(c.Path, "/") == "" { // the schema does not have it (PVE/API2.pm)
		return world.Subdirs("subdir", "version", "cluster", "nodes", "storage", "access", "pools")(c)
	}
	vars := request.Params{}
	r := loadRoutes().find(c.Path, vars)
	if r == nil || r.handlers[c.Method] == nil || release.Absent(s, r.specs[c.Method].Name) {
		return notHere(c)
	}
	for k, v := range vars {
		if c.Params.Has(k) && !slices.Equal(c.Params[k], v) {
			return nil, answer.BadParam(k, "duplicate parameter (already defined in URI) with conflicting values!")
		}
		c.Params[k] = v
	}
	c.Spec = r.specs[c.Method]
	c.Route = c.Spec.Name
	if err := access.Permit(s, c); err != nil {
		if c.Upload != nil {
			err = &answer.Error{Status: http.StatusForbidden, Text: strings.TrimPrefix(err.Error(), "403 "), Bare: true}
		}
		return nil, err
	}
	node := c.Param("node")
	if strings.Contains(c.Route, "/cluster/mapping/") && c.Params.Has("check-node") {
		node = c.Param("check-node")
	}
	if c.Route == "GET /nodes/{node}" || c.Route == "POST /nodes/{node}/wakeonlan" { // any node that is asked answers
		node = ""
	}
	if node != "" && node != "localhost" && s.Hosts[node] == nil && !strings.HasPrefix(c.Route, "POST /cluster/ha/") {
		return nil, unknownHost(node)
	}
	if err := nodes.Reachable(c); err != nil {
		return nil, err
	}
	if h := s.Hosts[c.Param("node")]; h != nil && (strings.Contains(c.Route, "/storage/") || strings.HasSuffix(c.Route, "/status/start")) {
		hostshell.SeeFiles(h)
	}
	if errs := c.Spec.Check(c.Params); errs != nil {
		return nil, &answer.Error{Status: http.StatusBadRequest, Text: "Parameter verification failed.", Params: errs}
	}
	if !strings.HasSuffix(c.Route, "/config") && c.Route != "POST /nodes/{node}/qemu" {
		c.Params.DropNull()
	}
	return c.InDaemon(func() (any, error) { return access.UnderUserLock(c, r.handlers[c.Method]) })
}

// unknownHost is what looking up a host's address ends with. A part of a name that
// is longer than 63 letters is not even asked for.
func unknownHost(name string) error {
	why := "Temporary failure in name resolution"
	if slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return len(part) > 63 }) {
		why = "Name or service not known"
	}
	return answer.Die("hostname lookup '%s' failed - failed to get address info for: %s: %s", name, name, why)
}
