package access

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// privilegesYAML says which privileges there are, by kind and by who has them.
//
//go:embed privileges.yaml
var privilegesYAML []byte

var privilegeTable = sync.OnceValue(func() map[string]map[string]string {
	out := map[string]map[string]string{}
	if err := yaml.Unmarshal(privilegesYAML, &out); err != nil {
		panic("pvesim: embedded privileges: " + err.Error())
	}
	return out
})

// builtInRoles are the roles that come with Proxmox VE (PVE/AccessControl.pm,
// create_roles).
func builtInRoles(nine bool) map[string][]string {
	out := map[string][]string{"NoAccess": {}, "Administrator": {"Permissions.Modify"}, "PVETemplateUser": {"VM.Clone", "VM.Audit"}}
	add := func(role string, privs []string) { out[role] = append(out[role], privs...) }
	era := map[bool]string{true: " since 9", false: " before 9"}[nine]
	for kind, levels := range privilegeTable() {
		at := func(level string) []string { return strings.Fields(levels[level] + " " + levels[level+era]) }
		guests := slices.Concat(at("user"), at("audit"))
		admins := slices.Concat(at("admin"), guests)
		add("Administrator", slices.Concat(at("root"), admins))
		add("PVE"+kind+"Admin", admins)
		add("PVEAdmin", admins)
		add("PVEAuditor", at("audit"))
		if len(at("user")) > 0 {
			add("PVE"+kind+"User", guests)
		}
	}
	out["PVEAdmin"] = slices.DeleteFunc(out["PVEAdmin"], func(p string) bool { return p == "Mapping.Modify" })
	return out
}

// builtIn reports whether a role comes with Proxmox VE and cannot be changed.
func builtIn(role string) bool {
	_, there := builtInRoles(true)[role]
	return there
}
