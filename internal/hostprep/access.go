package hostprep

import (
	"context"
	_ "embed" // the script below
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed observe-access.sh
var observeAccessScript string

// Access is the wanted state of a Proxmox VE cluster, independent of the host.
type Access struct {
	Owner    string          // as in [Spec]
	Prefix   string          // of the roles' names
	TokenID  string          // user@realm!name
	Grants   []proxmox.Grant // what the token must be allowed to do
	Storages []Storage       // what storages must accept
}

// Storage is the content that a storage must accept.
type Storage struct {
	Name    string
	Content []string // iso, import, images, …
	Why     []string // one for each Content, e.g. "first-boot ISOs"
}

// AccessState is the observed state.
type AccessState struct {
	Version  proxmox.Version
	Storages []StorageState
	Roles    map[string][]string // privileges by role
	Users    []string
	ACLs     []ACL
	Token    *TokenState // nil: there is none
	// May is what the token may do on the paths of [Access.Grants], Owner what its user may. The
	// value says whether a privilege also applies to the paths below.
	May, Owner map[string]map[string]bool
}

// StorageState is the observed state of a storage.
type StorageState struct {
	Name    string
	Type    string // dir, zfspool, lvmthin, …
	Content []string
}

// ACL is a role that is granted on a path.
type ACL struct {
	Path      string
	Who       string // a user, group or token
	Role      string
	Propagate bool
}

// TokenState is the observed state of an API token. Proxmox shows its secret only once, when the
// token is created.
type TokenState struct{ PrivSep bool }

func (a Access) user() string { user, _, _ := strings.Cut(a.TokenID, "!"); return user }

func (a Access) token() string { _, token, _ := strings.Cut(a.TokenID, "!"); return token }

// ObserveAccess reads the state of the cluster that the host behind r belongs to, in one round
// trip. r must be root there.
func (a Access) ObserveAccess(ctx context.Context, r remote.Runner) (AccessState, error) {
	args := []string{"sh", "-c", observeAccessScript, "observe-access.sh", a.user(), a.token()}
	for _, g := range a.Grants {
		if !slices.Contains(args[6:], g.Path) {
			args = append(args, g.Path)
		}
	}
	out, err := remote.Output(ctx, r, args...)
	if err != nil {
		return AccessState{}, fmt.Errorf("look at storages and users: %w", err)
	}
	s, err := a.parseAccess(out)
	if err != nil {
		return AccessState{}, fmt.Errorf("look at storages and users: %w", err)
	}
	return s, nil
}

// number is a boolean as Proxmox writes it: 1, "1", true.
type number bool

func (n *number) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	*n = text == "1" || text == "true"
	return nil
}

func (a Access) parseAccess(out []byte) (AccessState, error) {
	s := AccessState{Roles: map[string][]string{}, May: map[string]map[string]bool{}, Owner: map[string]map[string]bool{}}
	whole := false
	for _, part := range sections(out) {
		if part.name == "end" {
			whole = true
			continue
		}
		if err := a.read(&s, part); err != nil {
			return s, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if !whole {
		return s, fmt.Errorf("the output was truncated after %d bytes", len(out))
	}
	return s, nil
}

// read parses one section.
func (a Access) read(s *AccessState, part section) error {
	text := []byte(part.text)
	if strings.TrimSpace(part.text) == "" {
		return fmt.Errorf("pvesh says nothing: is the login root's, and does pve-cluster run?")
	}
	switch part.name {
	case "version":
		return json.Unmarshal(text, &s.Version)
	case "storages":
		return s.readStorages(text)
	case "roles":
		var all []struct{ Roleid, Privs string }
		err := json.Unmarshal(text, &all)
		for _, r := range all {
			s.Roles[r.Roleid] = strings.FieldsFunc(r.Privs, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
		}
		return err
	case "users":
		var all []struct{ Userid string }
		err := json.Unmarshal(text, &all)
		for _, u := range all {
			s.Users = append(s.Users, u.Userid)
		}
		return err
	case "acl":
		var all []struct {
			Path, Ugid, Roleid string
			Propagate          number
		}
		err := json.Unmarshal(text, &all)
		for _, e := range all {
			s.ACLs = append(s.ACLs, ACL{Path: e.Path, Who: e.Ugid, Role: e.Roleid, Propagate: bool(e.Propagate)})
		}
		return err
	case "tokens":
		var all []struct {
			Tokenid string
			PrivSep *number
		}
		err := json.Unmarshal(text, &all)
		for _, t := range all {
			if t.Tokenid == a.token() {
				s.Token = &TokenState{PrivSep: t.PrivSep == nil || bool(*t.PrivSep)}
			}
		}
		return err
	}
	if path, ok := strings.CutPrefix(part.name, "may "); ok {
		return readRights(text, path, s.May)
	}
	if path, ok := strings.CutPrefix(part.name, "owner "); ok {
		return readRights(text, path, s.Owner)
	}
	return nil
}

func readRights(text []byte, path string, into map[string]map[string]bool) error {
	var may map[string]map[string]number
	err := json.Unmarshal(text, &may)
	into[path] = map[string]bool{}
	for privilege, propagate := range may[path] {
		into[path][privilege] = bool(propagate)
	}
	return err
}

func (s *AccessState) readStorages(text []byte) error {
	var all []struct{ Storage, Type, Content string }
	err := json.Unmarshal(text, &all)
	for _, e := range all {
		s.Storages = append(s.Storages, StorageState{e.Storage, e.Type, strings.Split(e.Content, ",")})
	}
	return err
}

// includesRole reports whether rights on a path include those of a role.
func includesRole(rights map[string]bool, r proxmox.Role) bool {
	return !slices.ContainsFunc(r.Privileges, func(p string) bool {
		propagates, granted := rights[p]
		return !granted || r.Propagate && !propagates
	})
}

// missingRoles returns the roles to grant to the token: those whose privileges it does not all have
// already, from any grant.
func (a Access) missingRoles(s AccessState) []proxmox.Role {
	return slices.DeleteFunc(proxmox.Roles(a.Prefix, a.Grants), func(r proxmox.Role) bool {
		return s.Token != nil && includesRole(s.May[r.Path], r)
	})
}

// inherits reports whether the user's rights on a path come from a grant further up, or to a group.
// An entry of the user's own on the path would replace those for everything that the user does
// (pveum, Permission Management: inheritance).
func (a Access) inherits(s AccessState, path string) bool {
	ours, foreign := false, false
	for _, e := range s.ACLs {
		switch {
		case e.Who != a.user():
		case e.Path == path:
			return false // further roles there add to the inherited ones
		case e.Propagate && (e.Path == "/" || strings.HasPrefix(path, e.Path+"/")):
			mine := strings.HasPrefix(e.Role, a.Prefix+"-")
			ours, foreign = ours || mine, foreign || !mine
		}
	}
	return len(s.Owner[path]) > 0 && (foreign || !ours)
}
