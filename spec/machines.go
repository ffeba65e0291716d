package spec

import (
	"slices"
	"strings"
)

// FileServer is the role of the NFS server that we make. No node of Spec.Nodes has it.
const FileServer Role = "files"

// KeepsData is the Proxmox tag by which a machine of ours is known to hold data, also
// when the file does not name it any more.
const KeepsData = "keeps-data"

// ExportRoot is where the NFS server's data disk is mounted: all that it exports is on it.
const ExportRoot = "/export"

// exportDisk is the serial of that disk.
const exportDisk = "export"

// fileServerOS is the size of the disk that it boots from: the system alone, whose
// template may hold a GPU driver.
const fileServerOS = 60 * GiB

// Machines are all machines of the file: the nodes, then the NFS server where we make it.
func (s *Spec) Machines() []Node {
	nfs := s.Platform.Storage.NFS
	if nfs == nil || nfs.VM == nil {
		return s.Nodes
	}
	return append(slices.Clip(s.Nodes), s.fileServer(nfs.VM))
}

func (s *Spec) fileServer(vm *NFSVM) Node {
	n := Node{
		Name: vm.Name, Role: FileServer, Host: vm.Host, Address: vm.Address, MAC: StableMAC(s.Name, vm.Name), Network: s.Network,
		Cores: vm.Cores, Memory: vm.Memory, CPUType: "host", OnBoot: true, Tags: []string{KeepsData},
		Disks: []Disk{{DiskOptions: vm.Disk, Name: exportDisk, Role: RoleData, FS: "ext4", Mount: ExportRoot}},
	}
	n.Network.Queues = min(n.Cores, 64)
	n.OSDisk.DiskOptions = vm.Disk
	n.OSDisk.Size = fileServerOS
	return n
}

// AnyHost is a node's host in a file that leaves the choice to us. placement.Place makes it.
const AnyHost = "auto"

// Unplaced reports whether a node's host is still to be chosen.
func (n Node) Unplaced() bool { return n.Host == AnyHost }

// TemplatesBeside puts each host's template where the first of its nodes boots from,
// unless the file says another place.
func (s *Spec) TemplatesBeside() {
	if s.TemplateAsked {
		return
	}
	for i := range s.Proxmox.Hosts {
		h := &s.Proxmox.Hosts[i]
		for _, n := range slices.Backward(s.Machines()) {
			if n.Host == h.Name {
				h.TemplateStorage = n.OSDisk.Storage
			}
		}
	}
}

// Within reports whether path is mount, or in it.
func Within(path, mount string) bool {
	return path == mount || path != "" && strings.HasPrefix(path, strings.TrimSuffix(mount, "/")+"/")
}
