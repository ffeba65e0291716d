package proxmox

import (
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// TagAccess is which tags the token may set, and take off, as long as it has no Sys.Modify
// on / (get_allowed_tags and assert_tag_permissions in PVE/GuestHelpers.pm).
type TagAccess struct {
	// Allow is user-allow of the datacenter's option user-tag-access: free, existing, list
	// or none; "" where the token may not see it. The same goes for List and Registered.
	Allow      string
	List       []string // user-allow-list of that option
	Registered []string // for administrators alone, whatever Allow is
	Allowed    []string // what the token may set that is on List, or on a VM that it sees
}

// CanMark reports whether the machines of owner's can be marked: each needs a tag of its own,
// which no list can have. sure is false where that is guessed from tags, those of the VMs
// that the token sees.
func (a TagAccess) CanMark(owner string, tags []string) (can, sure bool) {
	owner = strings.ToLower(owner)
	may := func(tag string) bool { return slices.Contains(a.Allowed, tag) }
	switch {
	case slices.Contains(a.Registered, owner):
		return false, true
	case a.Allow != "":
		return a.Allow == "free", true
	case slices.Contains(tags, owner) && !may(owner):
		return false, true
	}
	return len(tags) == 0 || slices.ContainsFunc(tags, may), false
}

// AllowCommand returns the command that lets every token set the tags of its machines. It sets the
// whole option again; see [TagAccess.AllowCommandLoses].
func (a TagAccess) AllowCommand() string { return api.FreeTags(a.List) }

// AllowCommandLoses says what the command of Free would lose that the token may not see, "" where it
// sees it.
func (a TagAccess) AllowCommandLoses() string {
	if a.Allow != "" {
		return ""
	}
	return api.TagsLost
}
