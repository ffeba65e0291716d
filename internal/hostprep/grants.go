package hostprep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// Changes returns all changes that are needed, except the token, which [Access.MakeToken] makes
// between [User] and [RoleGrants]. It is pure.
func (a Access) Changes(s AccessState) []*Change {
	var out []*Change
	if c := a.storages(s); len(c.Commands) > 0 {
		out = append(out, c)
	}
	if a.TokenID == "" || s.Token != nil && len(a.missingRoles(s)) == 0 {
		return out
	}
	for _, c := range []*Change{a.roles(s), a.makeUser(s), a.grants(s)} {
		if len(c.Commands) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// Change returns the one of [Access.Changes] with that id, or nil if it is up to date.
func (a Access) Change(s AccessState, id string) *Change {
	all := a.Changes(s)
	if i := slices.IndexFunc(all, func(c *Change) bool { return c.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

// storages adds content types to storages and keeps those that they have.
func (a Access) storages(s AccessState) *Change {
	c := &Change{ID: Storages, What: "storage content types"}
	for _, want := range a.Storages {
		i := slices.IndexFunc(s.Storages, func(have StorageState) bool { return have.Name == want.Name })
		if i < 0 || want.impossible(s.Storages[i], s.Version) != "" {
			continue // see Notes
		}
		content, changed := slices.Clone(s.Storages[i].Content), false
		for j, kind := range want.Content {
			if slices.Contains(content, kind) {
				continue
			}
			content, changed = append(content, kind), true
			c.Why = append(c.Why, fmt.Sprintf("%s must accept %s, for %s.", want.Name, kind, want.Why[j]))
		}
		if changed {
			c.Commands = append(c.Commands, []string{"pvesm", "set", want.Name, "--content", strings.Join(content, ",")})
			c.Undo = append(c.Undo, "pvesm set "+want.Name+" --content "+strings.Join(s.Storages[i].Content, ","))
		}
	}
	return c
}

// holdsFiles reports whether a type of storage holds files, and so can hold ISOs and images to
// import (the plugindata of pve-storage's plugins).
func holdsFiles(kind string) bool {
	return slices.Contains([]string{"dir", "nfs", "cifs", "btrfs", "cephfs", "glusterfs"}, kind)
}

// impossible says why a storage cannot hold the wanted content, or returns "".
func (want Storage) impossible(have StorageState, v proxmox.Version) string {
	for _, kind := range want.Content {
		switch {
		case slices.Contains(have.Content, kind):
		case (kind == "iso" || kind == "import" || kind == "snippets") && !holdsFiles(have.Type):
			return fmt.Sprintf("%s is of type %s and cannot hold %s", have.Name, have.Type, kind)
		case kind == "import" && v.Before(8, 4):
			return fmt.Sprintf("Proxmox VE %s does not know the content type import: upgrade to 8.4 or newer", v.Version)
		}
	}
	return ""
}

// Notes returns the problems that homelab has no command for.
func (a Access) Notes(s AccessState) []Note {
	var out []Note
	for _, want := range a.Storages {
		i := slices.IndexFunc(s.Storages, func(have StorageState) bool { return have.Name == want.Name })
		if i < 0 {
			var names []string
			for _, have := range s.Storages {
				names = append(names, have.Name)
			}
			out = append(out, Note{Fatal: true, What: fmt.Sprintf("there is no storage %s, for %s", want.Name, strings.Join(want.Why, ", ")),
				Do: "name another in the file (there are " + strings.Join(names, ", ") + "), or make it"})
			continue
		}
		if why := want.impossible(s.Storages[i], s.Version); why != "" {
			out = append(out, Note{Fatal: true, What: why, Do: "name another storage in the file"})
		}
	}
	if a.TokenID == "" || a.user() == "root@pam" {
		return out
	}
	for _, r := range a.missingRoles(s) {
		if !includesRole(s.Owner[r.Path], r) && a.inherits(s, r.Path) {
			out = append(out, Note{Fatal: true, What: fmt.Sprintf("%s lacks %s on %s, where it inherits rights from a path above: a role there would replace those",
				a.user(), strings.Join(missingPrivileges(s.Owner[r.Path], r), ","), r.Path),
				Do: "use a separate user for the cluster, e.g. token: homelab@pve!cluster, or grant the privileges yourself"})
		}
	}
	return out
}

func missingPrivileges(rights map[string]bool, r proxmox.Role) []string {
	return slices.DeleteFunc(slices.Clone(r.Privileges), func(p string) bool { _, ok := rights[p]; return ok })
}

// roles creates one role for each path, with only the privileges that are needed there.
func (a Access) roles(s AccessState) *Change {
	c := &Change{ID: Role, What: "roles with exactly the privileges that the file needs"}
	for _, r := range a.missingRoles(s) {
		have, there := s.Roles[r.Name]
		verb := "add"
		if there {
			if have = slices.Sorted(slices.Values(have)); slices.Equal(have, r.Privileges) {
				continue
			}
			verb = "modify"
			c.Undo = append(c.Undo, "pveum role modify "+r.Name+" --privs "+strings.Join(have, ","))
		} else {
			c.Undo = append(c.Undo, "pveum role delete "+r.Name)
		}
		c.Commands = append(c.Commands, []string{"pveum", "role", verb, r.Name, "--privs", strings.Join(r.Privileges, ",")})
		c.Why = append(c.Why, fmt.Sprintf("On %s: %s.", r.Path, strings.Join(r.Reasons, "; ")))
	}
	return c
}

func (a Access) makeUser(s AccessState) *Change {
	c := &Change{ID: User, What: "user"}
	if slices.Contains(s.Users, a.user()) {
		return c
	}
	c.Commands = [][]string{{"pveum", "user", "add", a.user(), "--comment", "homelab: " + a.Owner}}
	c.Why = []string{"The user has no password, so nobody can log in as it; it only owns the API token."}
	c.Undo = []string{"pveum user delete " + a.user()}
	return c
}

// grants grants the roles to the user and the token: a token with privilege separation may do only
// what both may do.
func (a Access) grants(s AccessState) *Change {
	c := &Change{ID: RoleGrants, What: "grants of the roles",
		Why: []string{"A privilege-separated token (privsep) may do only what its user may too, so both get the roles."},
		// Proxmox ignores grants of deleted roles when it reads user.cfg (PVE/AccessControl.pm).
		Undo: []string{"deleting the roles deletes the grants"}}
	for _, r := range a.missingRoles(s) {
		grant := func(flag, who string) {
			if slices.Contains(s.ACLs, ACL{r.Path, who, r.Name, r.Propagate}) {
				return
			}
			propagate := map[bool]string{true: "1", false: "0"}[r.Propagate]
			c.Commands = append(c.Commands, []string{"pveum", "acl", "modify", r.Path, flag, who, "--roles", r.Name, "--propagate", propagate})
		}
		switch {
		case a.user() == "root@pam", includesRole(s.Owner[r.Path], r): // needs no grant
		case a.inherits(s, r.Path): // see Notes
		default:
			grant("--users", a.user())
		}
		if s.Token == nil || s.Token.PrivSep {
			grant("--tokens", a.TokenID)
		}
	}
	return c
}
