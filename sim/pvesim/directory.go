package pvesim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directory is what user.cfg and domains.cfg say of people beside their rights.
// Its zero value knows nothing but the two realms that are always there.
type directory struct {
	people map[string]map[string]string // further properties by user or token
	notes  map[string]string            // comments by group
	realms map[string]map[string]string
}

// shut reports whether a user or a token may not come in any more: disabled, or
// past its time.
func (d *directory) shut(id string) bool {
	about := d.people[id]
	expire, err := strconv.ParseInt(about["expire"], 10, 64)
	return about["enable"] == "0" || err == nil && expire != 0 && expire < time.Now().Unix()
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
		d.realms = firstRealms()
	}
	return d.realms[id]
}

// firstRealms are those that are there before anybody has made one.
func firstRealms() map[string]map[string]string {
	return map[string]map[string]string{
		"pam": {"type": "pam", "comment": "Linux PAM standard authentication"},
		"pve": {"type": "pve", "comment": "Proxmox VE authentication server"},
	}
}

func (d *directory) describe(group, comment string) {
	if d.notes == nil {
		d.notes = map[string]string{}
	}
	d.notes[group] = comment
}

// groupsOf returns the groups that a user is in.
func (s *state) groupsOf(user string) (names []string) {
	for _, g := range slices.Sorted(maps.Keys(s.access.groups)) {
		if s.access.groups[g][user] {
			names = append(names, g)
		}
	}
	return names
}

// tokensOf returns the tokens of a user, by their names without it.
func (s *state) tokensOf(user string) (names []string) {
	for _, id := range slices.Sorted(maps.Keys(s.access.tokens)) {
		if name, ok := strings.CutPrefix(id, user+"!"); ok {
			names = append(names, name)
		}
	}
	return names
}

// forgetWho drops what was granted to somebody who is gone.
func (s *state) forgetWho(who string) {
	s.access.acls = slices.DeleteFunc(s.access.acls, func(a ACL) bool { return a.Who == who })
}
