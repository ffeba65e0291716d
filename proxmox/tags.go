package proxmox

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
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

// TagAccess asks which tags the token may set. audits says that it has Sys.Audit on /,
// without which Proxmox does not tell of the datacenter's options.
func (c *Client) TagAccess(ctx context.Context, audits bool) (TagAccess, error) {
	var options struct {
		Access struct {
			Allow string   `json:"user-allow"`
			List  []string `json:"user-allow-list"`
		} `json:"user-tag-access"`
		Registered []string `json:"registered-tags"`
		Allowed    []string `json:"allowed-tags"`
	}
	if err := c.get(ctx, "/cluster/options", nil, &options); err != nil {
		return TagAccess{}, err
	}
	a := TagAccess{Allow: options.Access.Allow, List: options.Access.List, Registered: options.Registered, Allowed: options.Allowed}
	if a.Allow == "" && audits {
		a.Allow = "free"
	}
	return a, nil
}

// Mark reports whether the machines of owner's can be marked: each needs a tag of its own,
// which no list can have. sure is false where that is guessed from tags, those of the VMs
// that the token sees.
func (a TagAccess) Mark(owner string, tags []string) (can, sure bool) {
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

// Free returns the command that lets every token set the tags of its machines. It sets the
// whole option anew; see [TagAccess.Lost].
func (a TagAccess) Free() string {
	value := "user-allow=free"
	if len(a.List) > 0 {
		value += ",user-allow-list=" + strings.Join(a.List, ";")
	}
	return fmt.Sprintf("pvesh set /cluster/options --user-tag-access '%s'", value)
}

// Lost says what the command of Free would lose that the token may not see, "" where it
// sees it.
func (a TagAccess) Lost() string {
	if a.Allow != "" {
		return ""
	}
	return "first look at pvesh get /cluster/options: if its user-tag-access has a user-allow-list, " +
		"append ,user-allow-list=A;B to user-allow=free, or the list is lost"
}

var tagText = regexp.MustCompile(`Sys\.Modify for modifying tag '(.*?)'`)

// tagHint says what to do where Proxmox refused to have a tag set, "" for other refusals.
func tagHint(message string) string {
	m := tagText.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("\n  it is for the tag %s; any token may set free tags, and this one needs nothing else, "+
		"once root has run on a host: %s"+
		"\n  %s"+
		"\n  (a tag that is among the datacenter's registered-tags stays reserved for administrators: remove it there)", m[1], TagAccess{}.Free(), TagAccess{}.Lost())
}
