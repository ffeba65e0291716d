package pvesim

import (
	"maps"
	"slices"
	"strings"
)

// directory is what user.cfg and domains.cfg say of people beside their rights.
// Its zero value knows nothing but the two realms that are always there.
type directory struct {
	people map[string]map[string]string // further properties by user or token
	notes  map[string]string            // comments by group
	realms map[string]map[string]string
}

// about returns the properties of a user or a token, to be changed.
func (d *directory) about(id string) map[string]string {
	if d.people == nil {
		d.people = map[string]map[string]string{}
	}
	if d.people[id] == nil {
		d.people[id] = map[string]string{}
	}
	return d.people[id]
}

// realm returns the properties of a realm, nil where there is none.
func (d *directory) realm(id string) map[string]string {
	if d.realms == nil {
		d.realms = map[string]map[string]string{
			"pam": {"type": "pam", "comment": "Linux PAM standard authentication"},
			"pve": {"type": "pve", "comment": "Proxmox VE authentication server"},
		}
	}
	return d.realms[id]
}

func (d *directory) describe(group, comment string) {
	if d.notes == nil {
		d.notes = map[string]string{}
	}
	d.notes[group] = comment
}

// groupsOf returns the groups that a user is in.
func (s *Sim) groupsOf(user string) (names []string) {
	for _, g := range slices.Sorted(maps.Keys(s.access.groups)) {
		if s.access.groups[g][user] {
			names = append(names, g)
		}
	}
	return names
}

// tokensOf returns the tokens of a user, by their names without it.
func (s *Sim) tokensOf(user string) (names []string) {
	for _, id := range slices.Sorted(maps.Keys(s.access.tokens)) {
		if name, ok := strings.CutPrefix(id, user+"!"); ok {
			names = append(names, name)
		}
	}
	return names
}

// forgetWho drops what was granted to somebody who is gone.
func (s *Sim) forgetWho(who string) {
	s.access.acls = slices.DeleteFunc(s.access.acls, func(a ACL) bool { return a.Who == who })
}
