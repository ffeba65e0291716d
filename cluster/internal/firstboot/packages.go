package firstboot

import (
	_ "embed" // seal.sh
	"slices"

	"github.com/cps-gpu/homelab/spec"
)

// BakedPackages are what K3s and its storage want of a machine, and what the file
// names for every node: then no first boot needs a mirror.
func BakedPackages(s *spec.Spec) []string {
	packages := slices.Concat(basePackages(), Distro(s).Packages, hostNeeds(s).Packages, s.Guest.Packages)
	slices.Sort(packages)
	return slices.Compact(packages)
}

// basePackages are what K3s and its storage want of a machine, beside the agent.
func basePackages() []string { return []string{"nfs-common", "open-iscsi", "curl"} }

// ownPackages are installed at a node's first boot if the template is the user's own:
// the agent, through which its host key is read, and what a baked one has already.
func ownPackages(s *spec.Spec) []string {
	if s.Image.Template == "" {
		return s.Guest.Packages
	}
	const agent = "qemu-guest-agent"
	packages := slices.DeleteFunc(BakedPackages(s), func(p string) bool { return p == agent })
	return append([]string{agent}, packages...)
}

// nfsPackage is Ubuntu's NFS server. The template does not contain it, because no node needs it.
const nfsPackage = "nfs-kernel-server"
