package hostprep

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// Grants returns the least that a token must be allowed to do on a Proxmox VE of
// version v for cluster up, verify and down of this file: which privileges, on
// which paths, and why. A test removes each one and checks that it is needed.
//
// Sources: the permission checks of qemu-server (PVE/API2/Qemu.pm, Agent.pm),
// pve-storage (PVE/API2/Storage) and pve-manager (PVE/API2/Cluster/Mapping/PCI.pm).
func Grants(s *spec.Spec, v proxmox.Version) []proxmox.Grant {
	if len(Hosts(s)) == 0 {
		return nil // every machine belongs to another owner
	}
	all := machineGrants(v)
	if slices.ContainsFunc(s.Machines(), spec.Node.FromDiscs) {
		all = append(all, proxmox.Grant{Path: "/vms", Privileges: []string{"VM.Console"}, Propagate: true,
			Reason: "press the key that the disc of Windows waits for; on all machines, because one has no path before it exists"})
	}
	all = append(all, storageGrants(s)...)
	all = append(all, bridgeGrants(s)...)
	all = append(all, poolGrants(s)...)
	all = append(all, hostGrants(s)...)
	return append(all, mappingGrants(s)...)
}

// ClaimGrants returns the least that the token of storage.proxmox must be allowed to do; nothing if the file has no
// such section. A test removes each one. Sources: the requests of the driver (sergelogvinov/proxmox-csi-plugin and
// go-proxmox), and what pve-manager, pve-storage and qemu-server ask for these.
func ClaimGrants(s *spec.Spec) []proxmox.Grant {
	c := s.Platform.Storage.Proxmox
	if c == nil {
		return nil
	}
	storage := "/storage/" + c.Storage
	return []proxmox.Grant{
		{Path: "/vms", Privileges: []string{"VM.Audit"}, Propagate: true, Reason: "find a node's machine, and which machine has a volume"},
		{Path: "/vms", Privileges: []string{"VM.Config.Disk"}, Propagate: true, Reason: "attach volumes to machines, detach and grow them; on all of them, because a machine has no path before it exists"},
		{Path: storage, Privileges: []string{"Datastore.Audit"}, Reason: "see the storage and its volumes"},
		{Path: storage, Privileges: []string{"Datastore.AllocateSpace"}, Reason: "create volumes and grow them"},
		{Path: storage, Privileges: []string{"Datastore.Allocate"}, Reason: "delete volumes, and attach those that belong to no machine: Proxmox has no smaller privilege for that, and this one reaches everything on the storage"},
	}
}

// ClaimRolePrefix returns the prefix of the names of the roles that grant [ClaimGrants].
func ClaimRolePrefix(s *spec.Spec) string { return RolePrefix(s) + "-csi" }

// ReadGrants returns what the token may also read. Without these grants Proxmox hides the hosts'
// sizes, clocks and kernels, which cluster:init needs for its proposals and host:check for its
// checks. cluster:up does not need them.
func ReadGrants(s *spec.Spec) []proxmox.Grant {
	var all []proxmox.Grant
	for _, host := range Hosts(s) {
		all = append(all, proxmox.Grant{Path: "/nodes/" + host, Privileges: []string{"Sys.Audit"},
			Reason: "let cluster:init and host:check see the host's CPUs, memory, clock and kernel; nothing else needs it"})
	}
	return all
}

// RolePrefix returns the prefix of the names of the roles that grant [Grants].
func RolePrefix(s *spec.Spec) string { return names.Tag(s) }

// Hosts returns the hosts that run a machine of ours, sorted.
func Hosts(s *spec.Spec) []string {
	var hosts []string
	for _, n := range s.Machines() {
		switch {
		case !n.OnProxmox():
		case n.Unplaced(): // on any of them
			for _, h := range s.Proxmox.Hosts {
				hosts = append(hosts, h.Name)
			}
		default:
			hosts = append(hosts, n.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// machineGrants returns the grants for VMs. They are on /vms as a whole: a machine has no path
// before it has a VMID, and Proxmox removes the grants on a VM's path when the VM is destroyed.
func machineGrants(v proxmox.Version) []proxmox.Grant {
	var all []proxmox.Grant
	on := func(why string, privileges ...string) {
		all = append(all, proxmox.Grant{Path: "/vms", Privileges: privileges, Propagate: true, Reason: why})
	}
	on("see the machines and their settings; without it Proxmox answers with empty lists", "VM.Audit")
	on("create and destroy machines, and turn one into the template", "VM.Allocate")
	on("clone machines from the template", "VM.Clone")
	on("start and stop machines", "VM.PowerMgmt")
	on("give machines their cores, memory, disks and network", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Disk", "VM.Config.Network")
	on("firmware, machine type, console, UUID and the guest agent's channel; tags, which with the UUID identify the owner of a machine", "VM.Config.HWType", "VM.Config.Options")
	on("insert and eject the first-boot ISO", "VM.Config.CDROM")
	if v.Major() == 8 {
		on("read SSH host keys and fill the template through the guest agent", "VM.Monitor")
	} else {
		on("read SSH host keys and fill the template through the guest agent", "VM.GuestAgent.Unrestricted")
	}
	return all
}

// storageGrants returns the grants for every storage that the file names.
func storageGrants(s *spec.Spec) []proxmox.Grant {
	var all []proxmox.Grant
	holds := map[string]map[string]bool{} // by storage: content, and whether templates have their disks there
	for _, host := range Hosts(s) {
		for _, u := range Uses(s, host) {
			if holds[u.Storage] == nil {
				holds[u.Storage] = map[string]bool{}
			}
			switch {
			case u.Claims:
				holds[u.Storage]["claims"] = true
			case u.Discs:
				holds[u.Storage]["discs"] = true
			default:
				holds[u.Storage][u.Content] = true
			}
		}
		if bakes(s, host) {
			holds[s.TemplateStorage(host)]["template"] = true
		}
	}
	for _, n := range s.Machines() {
		for _, d := range n.Disks {
			if d.Volume != "" && holds[d.Storage] != nil {
				holds[d.Storage]["volume"] = true
			}
		}
	}
	for _, storage := range slices.Sorted(maps.Keys(holds)) {
		h := holds[storage]
		on := func(why string, privileges ...string) {
			all = append(all, proxmox.Grant{Path: "/storage/" + storage, Privileges: privileges, Reason: why})
		}
		if h["images"] {
			on("create disks of machines and templates, and grow them", "Datastore.AllocateSpace")
		}
		if h["volume"] {
			on("see existing disks that the file names, and attach them", "Datastore.Audit")
		}
		if h["claims"] && !h["images"] {
			on("see whether the storage of storage.proxmox is there and takes disks; the storage driver creates them with a token of its own", "Datastore.Audit")
		}
		if h["template"] {
			on("see which machines' disks are linked clones of a template's; without it Proxmox omits them from the list", "Datastore.Audit")
		}
		if h["discs"] && filesOn(h) == "" && !h["template"] {
			on("see whether the discs of an installation are there, and put them into drives", "Datastore.Audit")
		}
		if files := filesOn(h); files != "" {
			on("see whether "+files+" are there; without it Proxmox omits the storage", "Datastore.Audit")
			on("put "+files+" there", "Datastore.AllocateTemplate")
			on("remove "+files+" that are no longer used: Proxmox has no smaller privilege for that, and this one reaches everything on the storage", "Datastore.Allocate")
		}
	}
	return all
}

// filesOn names our files on a storage, in addition to disks.
func filesOn(holds map[string]bool) string {
	var out []string
	if holds[ISOContent] {
		out = append(out, "first-boot ISOs")
	}
	if holds["import"] {
		out = append(out, "cloud images")
	}
	return strings.Join(out, " and ")
}

// bridgeGrants returns the grants for every bridge that a machine is connected to.
func bridgeGrants(s *spec.Spec) []proxmox.Grant {
	var bridges []string
	if s.Image.Template == "" {
		bridges = append(bridges, s.Network.Bridge)
	}
	for _, n := range s.Machines() {
		if n.OnProxmox() {
			bridges = append(bridges, n.Network.Bridge)
			for _, card := range n.Networks {
				bridges = append(bridges, card.Bridge)
			}
		}
	}
	slices.Sort(bridges)
	var all []proxmox.Grant
	for _, bridge := range slices.Compact(bridges) {
		// A bridge of the host belongs to the zone localnetwork; a VLAN on it is a path below.
		all = append(all, proxmox.Grant{Path: "/sdn/zones/localnetwork/" + bridge, Privileges: []string{"SDN.Use"}, Propagate: true,
			Reason: "plug machines into it, with or without a VLAN"})
	}
	return all
}

// poolGrants returns the grants for every resource pool that the file names. A clone may name any
// pool; to put an existing machine into one, Proxmox wants the right to change the pool.
func poolGrants(s *spec.Spec) []proxmox.Grant {
	var all []proxmox.Grant
	for _, pool := range s.ResourcePools() {
		all = append(all, proxmox.Grant{Path: "/pool/" + pool, Privileges: []string{"Pool.Allocate", "Pool.Audit"},
			Reason: "put machines into it, and see which are in it"})
	}
	return all
}

// hostGrants returns the grants for hosts themselves, and for settings of all hosts.
func hostGrants(s *spec.Spec) []proxmox.Grant {
	var all []proxmox.Grant
	if s.Image.Template == "" || slices.ContainsFunc(s.VMs, func(vm spec.VM) bool { return vm.Machine().FromImage() }) {
		for _, host := range Hosts(s) {
			all = append(all, proxmox.Grant{Path: "/nodes/" + host, Privileges: []string{"Sys.AccessNetwork"},
				Reason:       "let the host download the cloud image",
				Alternatives: []proxmox.Grant{{Path: "/", Privileges: []string{"Sys.Audit", "Sys.Modify"}}}})
		}
	}
	if wantsDevices(s) {
		all = append(all, proxmox.Grant{Path: "/", Privileges: []string{"Sys.Audit"}, Reason: "read which devices the hosts have, and which of their disks are in use"})
	}
	switch {
	case slices.ContainsFunc(s.Machines(), func(n spec.Node) bool { return n.OnProxmox() && n.Startup != spec.Startup{} }):
		why := "set the startup order, which Proxmox counts as a change of the host"
		if wantsGPUs(s) {
			why += "; it is also enough to read which PCI devices the hosts have"
		}
		all = append(all, proxmox.Grant{Path: "/", Privileges: []string{"Sys.Modify"}, Reason: why})
	case wantsGPUs(s) && !wantsDevices(s):
		all = append(all, proxmox.Grant{Path: "/", Privileges: []string{"Sys.Audit"}, Reason: "read which PCI devices the hosts have",
			Alternatives: []proxmox.Grant{{Path: "/", Privileges: []string{"Sys.Modify"}}}})
	}
	return all
}

func wantsGPUs(s *spec.Spec) bool {
	return slices.ContainsFunc(s.Machines(), func(n spec.Node) bool { return n.OnProxmox() && n.HasGPUs() })
}

func wantsDevices(s *spec.Spec) bool {
	return slices.ContainsFunc(s.Machines(), func(n spec.Node) bool { return n.OnProxmox() && len(n.Devices) > 0 })
}

// mappingGrants returns the grants for resource mappings. A token can give a machine a GPU only
// through a mapping.
func mappingGrants(s *spec.Spec) []proxmox.Grant {
	var all []proxmox.Grant
	var named, namedUSB []string
	made, usb := false, false
	for _, n := range s.Machines() {
		if !n.OnProxmox() {
			continue
		}
		named = append(named, n.GPUs.Mapping...)
		made = made || n.HasGPUs() && len(n.GPUs.Mapping) == 0
		for _, d := range n.Devices {
			switch name := d.NamedMapping(); {
			case name == "":
				made, usb = made || d.USB == "", usb || d.USB != ""
			case d.USB != "":
				namedUSB = append(namedUSB, name)
			default:
				named = append(named, name)
			}
		}
	}
	if usb {
		all = append(all, proxmox.Grant{Path: "/mapping/usb", Privileges: []string{"Mapping.Modify", "Mapping.Use"}, Propagate: true,
			Reason: "create a mapping for each USB device of a node, and give machines the devices in it"})
	}
	if made {
		all = append(all, proxmox.Grant{Path: "/mapping/pci", Privileges: []string{"Mapping.Modify", "Mapping.Use"}, Propagate: true,
			Reason: "create a mapping for the cards of each node, and give machines the cards in it"})
	}
	slices.Sort(named)
	for _, id := range slices.Compact(named) {
		all = append(all, proxmox.Grant{Path: "/mapping/pci/" + id, Privileges: []string{"Mapping.Use"},
			Reason: fmt.Sprintf("give machines the cards in the mapping %s", id)})
	}
	slices.Sort(namedUSB)
	for _, id := range slices.Compact(namedUSB) {
		all = append(all, proxmox.Grant{Path: "/mapping/usb/" + id, Privileges: []string{"Mapping.Use"},
			Reason: fmt.Sprintf("give machines the USB device of the mapping %s", id)})
	}
	return all
}
