package firstboot

import (
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
)

// IsSeedOf reports whether a file on a storage is a seed of one of these machines. Proxmox does not
// start a machine with a missing ISO in its drive.
func IsSeedOf(s *spec.Spec, machines map[string]bool, file string) bool {
	parts := strings.Split(file, "_")
	return names.OwnsFile(s, file) && machines[parts[2]]
}
