package access

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// capable says which privileges matter to which part of the web interface
// (PVE/RPCEnvironment.pm, compute_api_permission).
var capable = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"vms":     regexp.MustCompile(`^(VM\.|Permissions\.Modify)`),
		"access":  regexp.MustCompile(`^((User|Group)\.|Permissions\.Modify)`),
		"storage": regexp.MustCompile(`^(Datastore\.|Permissions\.Modify)`),
		"nodes":   regexp.MustCompile(`^(Sys\.|Permissions\.Modify)`),
		"sdn":     regexp.MustCompile(`^(SDN\.|Permissions\.Modify)`),
		"dc":      regexp.MustCompile(`^(Sys\.Audit|Sys\.Modify|SDN\.)`),
		"mapping": regexp.MustCompile(`^(Mapping\.|Permissions\.Modify)`),
	}
})

// capabilities are what a login describes another owner's privileges, by part of the web
// interface.
func capabilities(s *world.State, who world.Identity) map[string]map[string]int {
	out := map[string]map[string]int{}
	for part := range capable() {
		out[part] = map[string]int{}
	}
	paths := []string{"/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"}
	for _, acl := range s.Access.ACLs {
		if !slices.Contains(paths, acl.Path) {
			paths = append(paths, acl.Path)
		}
	}
	for _, p := range paths {
		part, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		if part == "" {
			part = "dc"
		}
		for priv := range privileges(s, who, p) {
			switch {
			case part == "pool":
				for _, of := range []string{"vms", "storage"} {
					if capable()[of].MatchString(priv) {
						out[of][priv] = 1
					}
				}
			case capable()[part] != nil && capable()[part].MatchString(priv):
				out[part][priv] = 1
			}
		}
	}
	return out
}
