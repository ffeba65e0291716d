package spec

import (
	"cmp"
	"slices"
	"strings"
)

// FileServer is the role of the NFS server that homelab creates. No node of Spec.Nodes has it.
const FileServer Role = "files"

// KeepsData is the Proxmox tag of a machine of ours that holds data. It applies even if the
// file no longer names the machine.
const KeepsData = "keeps-data"

// ExportRoot is the mount point of the NFS server's data disk; all exports are below it.
const ExportRoot = "/export"

// exportDisk is the serial of that disk.
const exportDisk = "export"

// fileServerOS is the size of its boot disk: only the system, whose template may contain a GPU
// driver.
const fileServerOS = 60 * GiB

// Machines returns all machines of the file: the nodes, then the NFS server if homelab creates
// one, then the VMs that are not nodes.
func (s *Spec) Machines() []Node {
	all := slices.Clip(s.Nodes)
	if nfs := s.Platform.Storage.NFS; nfs != nil && nfs.VM != nil {
		all = append(all, s.fileServer(nfs.VM))
	}
	for _, vm := range s.VMs {
		all = append(all, vm.Machine())
	}
	return all
}

func (s *Spec) fileServer(vm *NFSVM) Node {
	disk := DiskOptions{Storage: vm.Storage, Size: vm.Size, SSD: On, Discard: On, IOThread: On}
	n := Node{
		Name: vm.Name, Role: FileServer, Host: vm.Host, Address: vm.Address, MAC: StableMAC(s.Name, vm.Name), Network: s.Network,
		Cores: vm.Cores, Memory: vm.Memory, CPUType: "host", OnBoot: On, Tags: []string{KeepsData},
		Disks: []Disk{{DiskOptions: disk, Name: exportDisk, Role: RoleData, FS: "ext4", Mount: ExportRoot}},
	}
	n.Network.Queues = min(n.Cores, 64)
	n.OSDisk.DiskOptions = disk
	n.OSDisk.Size = fileServerOS
	return n
}

// AnyHost is a node's host if homelab chooses it. placement.Place does.
const AnyHost = "auto"

// Unplaced reports whether a node's host is still to be chosen.
func (n Node) Unplaced() bool { return n.Host == AnyHost }

// TemplatesBeside sets each host's template storage to that of its first node's boot disk,
// unless the file names another.
func (s *Spec) TemplatesBeside() {
	if s.TemplateAsked {
		return
	}
	for i := range s.Proxmox.Hosts {
		h := &s.Proxmox.Hosts[i]
		for _, n := range slices.Backward(s.Machines()) {
			if n.Host == h.Name && n.Boot == nil {
				h.TemplateStorage = n.OSDisk.Storage
			}
		}
	}
}

// IsWithin reports whether path is mount, or in it.
func IsWithin(path, mount string) bool {
	return path == mount || path != "" && strings.HasPrefix(path, strings.TrimSuffix(mount, "/")+"/")
}

// ResourcePools returns Proxmox's resource pools that the machines name, sorted.
func (s *Spec) ResourcePools() []string {
	var out []string
	for _, n := range s.Machines() {
		if n.ResourcePool != "" && n.OnProxmox() {
			out = append(out, n.ResourcePool)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// OwnsProtection reports whether the file says of a node whether its VM is protected.
func (s *Spec) OwnsProtection(name string) bool {
	return slices.ContainsFunc(s.Machines(), func(n Node) bool { return n.Name == name && n.Protection != 0 })
}

// OpenAgents reports whether an agent takes pods without tolerations.
func (s *Spec) OpenAgents() bool {
	return slices.ContainsFunc(s.Nodes, func(n Node) bool {
		return n.Role == Agent && !slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Effect != "PreferNoSchedule" })
	})
}

// OnlyGPUPool returns the name of the pool, or the node, that has all GPUs; empty: there are
// several, or none.
func (s *Spec) OnlyGPUPool() string {
	name := ""
	for _, n := range s.GPUNodes() {
		if name != "" && name != n.PoolName() {
			return ""
		}
		name = n.PoolName()
	}
	return name
}

// HasPool reports whether a profile of the hub can name it: a pool, or a node outside pools.
func (s *Spec) HasPool(name string) bool {
	return slices.ContainsFunc(s.Nodes, func(n Node) bool { return name == n.PoolName() })
}

// PoolName is the node's pool or, outside pools, its own name.
func (n Node) PoolName() string { return cmp.Or(n.Pool, n.Name) }
