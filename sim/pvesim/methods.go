package pvesim

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

// Method is one method of the API that the simulator serves, as its own schema
// has it, for comparison with Proxmox's.
type Method struct {
	Name        string                     // GET /nodes/{node}/qemu/{vmid}/config
	Parameters  map[string]json.RawMessage // what each may be; name[n] is one for all n
	Permissions json.RawMessage            // null where only root@pam may
	NoToken     bool                       // tickets alone
}

// Methods returns the methods that are served, by name.
func Methods() []Method {
	var raw struct {
		Methods map[string]struct {
			Parameters  map[string]json.RawMessage
			Permissions json.RawMessage
			NoToken     bool
			Shared      string
		}
		Shared map[string]json.RawMessage
	}
	if err := json.Unmarshal(schema.Text(), &raw); err != nil {
		panic("pvesim: embedded schema: " + err.Error())
	}
	var out []Method
	for name := range handlers() {
		m := raw.Methods[name]
		for _, shared := range strings.Fields(m.Shared) {
			m.Parameters[shared] = raw.Shared[shared]
		}
		out = append(out, Method{Name: name, Parameters: m.Parameters, Permissions: m.Permissions, NoToken: m.NoToken})
	}
	slices.SortFunc(out, func(a, b Method) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Formats returns the named formats of parameters that are checked. One that is
// not among them accepts everything.
func Formats() []string {
	names := append(slices.Sorted(maps.Keys(schema.Formats)), slices.Sorted(maps.Keys(schema.FirewallFormats))...)
	return slices.Sorted(slices.Values(append(names, slices.Sorted(maps.Keys(schema.Load().Formats))...)))
}
