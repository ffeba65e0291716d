package proxmox

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Grant is privileges on a path of Proxmox's tree of access control: all of them.
type Grant struct {
	Path         string   // /vms, /storage/local, /mapping/pci, …
	Privileges   []string // VM.Allocate, Datastore.Audit, …
	Propagate    bool     // wanted on what lies below the path as well: a VM has no path of its own before it is made
	Reason       string   // what needs it, for a person to judge
	Alternatives []Grant  // any of which Proxmox takes instead; they are not asked for, but a token that has one does well
}

// PermissionTree is what a token may do, as Proxmox says: path → privilege → whether
// the privilege reaches what lies below. One that does not is granted nevertheless.
type PermissionTree map[string]map[string]bool

// rootPaths are those that Proxmox always answers for. Of others it names only
// those that something is granted on (PVE/RPCEnvironment.pm, get_effective_permissions).
var rootPaths = []string{"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"}

// isExact reports whether what is granted on a path can be read off p exactly: Proxmox has
// answered for it.
func (p PermissionTree) isExact(where string) bool {
	_, named := p[where]
	return named || slices.Contains(rootPaths, where)
}

// Has reports whether a privilege is granted on a path; below asks for what lies
// below it too. A path that Proxmox does not mention inherits what propagates from
// the nearest one above; entries that do not propagate replace nothing below them.
func (p PermissionTree) Has(where, privilege string, below bool) bool {
	for at := where; ; at = path.Dir(at) {
		privileges, known := p[at]
		propagates, granted := privileges[privilege]
		switch {
		case granted && (propagates || at == where && !below):
			return true
		case known && (at == where && !below || len(privileges) == 0 || slices.Contains(slices.Collect(maps.Values(privileges)), true)):
			return false // what is granted here is in place of what is granted above
		case at == "/" || at == "." || !known && slices.Contains(rootPaths, at):
			return false // Proxmox answers for it always, and grants nothing
		}
	}
}

// Missing returns what of need is not granted, nor anything that does instead, each
// with the privileges that lack.
func (p PermissionTree) Missing(need []Grant) []Grant {
	var out []Grant
	for _, g := range need {
		lacks := slices.DeleteFunc(slices.Clone(g.Privileges), func(privilege string) bool {
			return p.Has(g.Path, privilege, g.Propagate)
		})
		instead := slices.ContainsFunc(g.Alternatives, func(other Grant) bool { return len(p.Missing([]Grant{other})) == 0 })
		if len(lacks) > 0 && !instead {
			g.Privileges = lacks
			out = append(out, g)
		}
	}
	return out
}

// GrantPaths are the paths of grants, each once, in order.
func GrantPaths(need []Grant) []string {
	var out []string
	for _, g := range need {
		if !slices.Contains(out, g.Path) {
			out = append(out, g.Path)
		}
	}
	return out
}

// UnmarshalJSON reads flags as Proxmox writes them, 0 and 1.
func (p *PermissionTree) UnmarshalJSON(b []byte) error {
	var flags map[string]map[string]wire.Bool
	if err := json.Unmarshal(b, &flags); err != nil {
		return err
	}
	*p = PermissionTree{}
	for where, privileges := range flags {
		(*p)[where] = map[string]bool{}
		for name, propagates := range privileges {
			(*p)[where][name] = bool(propagates)
		}
	}
	return nil
}

// String names what is granted, on what.
func (g Grant) String() string { return describeGrant(g.Privileges, g.Path, g.Propagate) }

// describeGrant names privileges and where they are.
func describeGrant(privileges []string, where string, below bool) string {
	out := fmt.Sprintf("%s on %s", strings.Join(privileges, ", "), where)
	if below {
		out += " and what lies below"
	}
	return out
}
