package firstboot

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// hostNeeds is what storage needs on every node, in addition to Kubernetes. Every template has
// the NFS client and the iSCSI initiator, whose socket starts its daemon.
func hostNeeds(s *spec.Spec) addon.Host {
	all := addon.Host{Files: map[string]string{}}
	add := func(h addon.Host) {
		all.Packages = append(all.Packages, h.Packages...)
		all.Modules = append(all.Modules, h.Modules...)
		maps.Copy(all.Files, h.Files)
	}
	if s.Platform.Storage.Longhorn != nil {
		add(addon.LonghornHost())
	}
	if s.Platform.Storage.CephFS != nil {
		add(addon.CephFSHost())
	}
	return all
}

// modulesFile is read by systemd at each boot. The boot succeeds even if one of the modules is
// built into the kernel, or does not exist.
const modulesFile = "/etc/modules-load.d/homelab-storage.conf"

// storageFiles are files that storage needs on every node, from its first boot on.
func storageFiles(s *spec.Spec) []cloudinit.File {
	needs := hostNeeds(s)
	var out []cloudinit.File
	for _, path := range slices.Sorted(maps.Keys(needs.Files)) {
		out = append(out, cloudinit.File{Path: path, Content: []byte(needs.Files[path])})
	}
	if len(needs.Modules) > 0 {
		out = append(out, cloudinit.File{Path: modulesFile, Content: []byte(strings.Join(needs.Modules, "\n") + "\n")})
	}
	return out
}
