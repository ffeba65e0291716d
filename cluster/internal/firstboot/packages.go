package firstboot

import (
	_ "embed" // seal.sh
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

// BakedPackages are the packages that K3s and its storage need on a machine, and those that
// the file names for every node. With them in the template, no first boot needs a mirror.
func BakedPackages(s *spec.Spec) []string {
	packages := slices.Concat(basePackages(), Distro(s).Packages, platform.Host(s).Packages, s.Guest.Packages)
	slices.Sort(packages)
	return slices.Compact(packages)
}

// basePackages are what K3s and its storage need on a machine, in addition to the agent.
func basePackages() []string { return []string{"nfs-common", "open-iscsi", "curl"} }

// firstBootPackages are installed at a node's first boot if no template of homelab's is below it: the
// agent, which reports the host key or the addresses, and the packages that a baked template already has.
func firstBootPackages(s *spec.Spec, n spec.Node) []string {
	if s.Image.Template == "" && n.OnProxmox() {
		return s.Guest.Packages
	}
	packages := slices.DeleteFunc(BakedPackages(s), func(p string) bool { return p == agentPackage })
	return append([]string{agentPackage}, packages...)
}

// agentPackage is QEMU's guest agent, in every distribution.
const agentPackage = "qemu-guest-agent"

// nfsPackage is Ubuntu's NFS server. The template does not contain it, because no node needs it.
const nfsPackage = "nfs-kernel-server"
