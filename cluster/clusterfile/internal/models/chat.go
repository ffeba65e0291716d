package models

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// chat checks the chat: it has no models and no people of its own.
func (r section) chat() {
	p := &r.spec.Platform
	c := p.ModelChat
	if c == nil {
		return
	}
	if p.ModelGateway == nil {
		r.Wrong(c, "the chat asks the models' gateway, and there is none", "write modelGateway: true, or remove modelChat")
	}
	switch l := p.Login; {
	case l == nil:
		r.Wrong(c, "nobody could sign in to the chat", "write login, or remove modelChat")
	case len(l.AllowedGroups)+len(l.AdminGroups) == 0 && len(l.ClusterRoles) > 0: // without roles, login says so
		r.Wrong(c, "no group may use the chat", "write allowedGroups or adminGroups in login")
	}
	if c.Size < spec.GiB {
		r.Wrong(&c.Size, fmt.Sprintf("%s is too little for a database", c.Size), "write 10GiB or more")
	}
	if scratch := p.Storage.Scratch; scratch != nil && c.StorageClass == scratch.Class {
		r.Wrong(&c.StorageClass, "the conversations would be on scratch disks, whose contents may be lost", "write a class with permanent volumes")
	}
}
