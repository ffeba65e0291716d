package world

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// directory is what user.cfg and domains.cfg say of people beside their rights.
// Its zero value knows nothing but the two realms that are always there.
type directory struct {
	People map[string]map[string]string // further properties by user or token
	Notes  map[string]string            // comments by group
	Realms map[string]map[string]string
}

// Shut reports whether a user or a token may not come in any more: disabled, or
// past its time.
func (d *directory) Shut(id string) bool {
	about := d.People[id]
	expire, err := strconv.ParseInt(about["expire"], 10, 64)
	return about["enable"] == "0" || err == nil && expire != 0 && expire < time.Now().Unix()
}

// About returns the properties of a user or a token, to be changed.
func (d *directory) About(id string) map[string]string {
	if d.People == nil {
		d.People = map[string]map[string]string{}
	}
	if d.People[id] == nil {
		d.People[id] = map[string]string{}
	}
	return d.People[id]
}

// Realm returns the properties of a realm, nil where there is none.
func (d *directory) Realm(id string) map[string]string {
	if d.Realms == nil {
		d.Realms = FirstRealms()
	}
	return d.Realms[id]
}

// FirstRealms are those that are there before anybody has made one.
func FirstRealms() map[string]map[string]string {
	return map[string]map[string]string{
		"pam": {"type": "pam", "comment": "Linux PAM standard authentication"},
		"pve": {"type": "pve", "comment": "Proxmox VE authentication server"},
	}
}

// Describe sets the comment of a group.
func (d *directory) Describe(group, comment string) {
	if d.Notes == nil {
		d.Notes = map[string]string{}
	}
	d.Notes[group] = comment
}

// GroupsOf returns the groups that a user is in.
func (s *State) GroupsOf(user string) (names []string) {
	for _, g := range slices.Sorted(maps.Keys(s.Access.Groups)) {
		if s.Access.Groups[g][user] {
			names = append(names, g)
		}
	}
	return names
}

// TokensOf returns the tokens of a user, by their names without it.
func (s *State) TokensOf(user string) (names []string) {
	for _, id := range slices.Sorted(maps.Keys(s.Access.Tokens)) {
		if name, ok := strings.CutPrefix(id, user+"!"); ok {
			names = append(names, name)
		}
	}
	return names
}

// ForgetWho drops what was granted to somebody who is gone.
func (s *State) ForgetWho(who string) {
	s.Access.ACLs = slices.DeleteFunc(s.Access.ACLs, func(a model.ACL) bool { return a.Who == who })
}
