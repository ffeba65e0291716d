package firstboot

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

// modulesFile is read by systemd at each boot. The boot succeeds even if one of the modules is
// built into the kernel, or does not exist.
const modulesFile = "/etc/modules-load.d/homelab-storage.conf"

// storageFiles are files that storage needs on every node, from its first boot on.
func storageFiles(s *spec.Spec) []cloudinit.File {
	needs := platform.Host(s)
	var out []cloudinit.File
	for _, path := range slices.Sorted(maps.Keys(needs.Files)) {
		out = append(out, cloudinit.File{Path: path, Content: []byte(needs.Files[path])})
	}
	if len(needs.Modules) > 0 {
		out = append(out, cloudinit.File{Path: modulesFile, Content: []byte(strings.Join(needs.Modules, "\n") + "\n")})
	}
	return out
}
