package auth

import (
	"fmt"
	"regexp"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// folderName is a group's name that can be a folder, and has nothing that KubeSpawner expands.
var folderName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._@+-]*$`)

// Share checks what groups may do in a share of hub.shared; isReadOnly says whether storage.nfs allows reading only.
func Share(c *decode.Checker, s *spec.HubShare, isReadOnly bool) {
	if len(s.Writers) > 0 {
		switch {
		case isReadOnly:
			c.Wrong(&s.Writers, fmt.Sprintf("share %s is read-only in storage.nfs, for all", s.Name), "remove readOnly there, and write it here")
		case s.PerGroup:
			c.Wrong(&s.Writers, "each group writes in its own folder", "remove writers, or perGroup")
		case !s.ReadOnly.IsOn():
			c.Wrong(&s.Writers, "all who mount the share may write", "write readOnly: true beside it, or remove writers")
		}
	}
	if !s.PerGroup {
		return
	}
	if len(s.Groups) == 0 {
		c.Wrong(&s.PerGroup, "perGroup needs to know the groups", "write groups: [NAME, …]")
	}
	for i, g := range s.Groups {
		if !folderName.MatchString(g) {
			c.Wrong(&s.Groups[i], fmt.Sprintf("group %q cannot be the name of a folder", g), "write groups of letters, digits and . _ - @ +, or a share for it without perGroup")
		}
	}
}
