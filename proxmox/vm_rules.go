package proxmox

import (
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// rule says how one thing of a running VM can be changed. On a VM that is off, every change is an
// update unless it is a replacement.
type rule struct {
	Thing  string          // what differs: "memory", "interface: bridge, VLAN"
	Key    string          // its config key in Proxmox: memory, netN
	Effect converge.Effect // Update: while it runs; Restart: stopped and started; Replace: replaced by another VM
	Reason string          // what Proxmox does, or why we do not do it
}

// The things in which a VM may differ; the rows of rules.
const (
	theTags        = "tags"
	theDescription = "description"
	thePool        = "resource pool"
	theProtection  = "protection"
	theAddress     = "address that others see"
	theOnBoot      = "start with the host"
	theStartup     = "boot order"
	theCores       = "cores"
	theSockets     = "sockets"
	theMemory      = "memory"
	theCPU         = "CPU type"
	theNUMA        = "NUMA"
	theNUMANodes   = "NUMA nodes"
	theHugepages   = "huge pages"
	theAffinity    = "affinity"
	theCPUShare    = "CPU weight and limit"
	theBalloon     = "balloon"
	theAgent       = "guest agent's channel"
	theMachine     = "machine type"
	theSerial      = "serial console"
	theTPM         = "TPM"
	theFirmware    = "firmware"
	theEFIDisk     = "firmware's variables"
	theSecureBoot  = "secure boot"
	theNIC         = "interface: a new one"
	theBridge      = "interface: bridge, VLAN, firewall"
	theNICDevice   = "interface: MAC, MTU, queues"
	theDisk        = "disk: a new one"
	theDiskGrown   = "disk: larger"
	theDiskOptions = "disk: ssd, discard, iothread, cache"
	theDiskBackups = "disk: backup, replicate"
	theDiskSerial  = "disk: serial"
	theDiskGone    = "disk: not wanted any more"
	theDiskShrunk  = "disk: smaller"
	theDiskVolume  = "disk: another volume"
	theDevice      = "passed-through device"
	theUSB         = "USB device"
	theSeedDrive   = "seed: taken out"
	theSeed        = "seed: another one"
	theHost        = "host"
	theVMID        = "VMID"
	theKind        = "kind"
	theUUID        = "UUID"
)

// rules returns the whole table, in the order of docs/nodes.md. Proxmox's part is
// vmconfig_hotplug_pending of qemu-server 9.2.6 (src/PVE/QemuServer.pm): changes that this function
// does not handle are pending until the VM's next start.
func rules() []rule {
	const (
		fast    = "written at once ($fast_plug_option)"
		waits   = "pending until the next start"
		unplugs = "Proxmox would pull the interface out of the running guest (vmconfig_update_net): done while the VM is off"
	)
	return []rule{
		{theTags, "tags", converge.Update, fast},
		{theDescription, "description", converge.Update, fast},
		{thePool, "", converge.Update, "PUT /pools; a VM is in one pool at most"},
		{theProtection, "protection", converge.Update, fast},
		{theAddress, "ipconfigN", converge.Update, fast + "; the machine itself has its address from its seed"},
		{theOnBoot, "onboot", converge.Update, fast},
		{theStartup, "startup", converge.Update, fast + "; wants Sys.Modify on /"},
		{theNIC, "netN", converge.Update, "plugged in, unless the VM's hotplug option lacks network"},
		{theBridge, "netN", converge.Update, "the tap is plugged into the other bridge (vmconfig_update_net)"},
		{theUSB, "usbN", converge.Update, "plugged in and out (vmconfig_hotplug_pending), unless the VM's hotplug option lacks usb or its ostype is not l26"},
		{theDisk, "scsiN", converge.Update, "plugged in, unless the VM's hotplug option lacks disk"},
		{theDiskGrown, "scsiN", converge.Update, "PUT …/resize grows the disk of a running VM"},
		{theDiskGone, "scsiN", converge.Update, "detached and kept as unusedN (vmconfig_delete_or_detach_drive)"},
		{theDiskBackups, "scsiN", converge.Update, "written at once (vmconfig_update_disk)"},
		{theCPUShare, "cpuunits, cpulimit", converge.Update, "set in the VM's control group"},
		{theCores, "cores", converge.Restart, waits},
		{theSockets, "sockets", converge.Restart, waits},
		{theMemory, "memory", converge.Restart, waits + ", unless its hotplug option has memory"},
		{theCPU, "cpu", converge.Restart, waits},
		{theNUMA, "numa", converge.Restart, waits},
		{theNUMANodes, "numaN", converge.Restart, waits},
		{theHugepages, "hugepages", converge.Restart, waits + "; root@pam with its password alone"},
		{theAffinity, "affinity", converge.Restart, waits + "; root@pam with its password alone"},
		{theBalloon, "balloon", converge.Restart, waits + ": the device is there from the start, or not at all"},
		{theAgent, "agent", converge.Restart, waits + " (vmconfig_update_agent)"},
		{theMachine, "machine", converge.Restart, waits},
		{theSerial, "serial0", converge.Restart, waits},
		{theTPM, "tpmstate0", converge.Restart, waits},
		{theEFIDisk, "efidisk0", converge.Restart, waits},
		{theNICDevice, "netN", converge.Restart, unplugs},
		{theDiskOptions, "scsiN", converge.Restart, waits + " (vmconfig_update_disk)"},
		{theDiskSerial, "scsiN", converge.Restart, "Proxmox writes it at once, and the guest goes on seeing the old one: done while the VM is off"},
		{theDevice, "hostpciN", converge.Restart, waits},
		{theUUID, "smbios1", converge.Restart, waits + "; only a VM without one is given one"},
		{theSeedDrive, "ide2", converge.Restart, "IDE has no hotplug: pending until the next start"},
		{theSeed, "ide2", converge.Replace, "the seed is read at the first boot alone"},
		{theFirmware, "bios", converge.Replace, "a disk that boots by one does not boot by the other"},
		{theSecureBoot, "efidisk0", converge.Replace, "the keys are in the firmware's variables, which are made with the VM"},
		{theDiskShrunk, "scsiN", converge.Replace, "Proxmox does not shrink disks"},
		{theDiskVolume, "scsiN", converge.Replace, "a disk's name stands for one volume: a disk of another name takes the other one while the VM runs"},
		{theHost, "", converge.Replace, "a VM with passed-through devices cannot be moved while it lives"},
		{theVMID, "", converge.Replace, "Proxmox does not renumber VMs"},
		{theKind, "template", converge.Replace, "a template cannot become a VM again"},
	}
}

// ruleOf returns the rule for a thing. A thing that is not in the table needs a restart.
func ruleOf(thing string) rule {
	all := rules()
	if i := slices.IndexFunc(all, func(r rule) bool { return r.Thing == thing }); i >= 0 {
		return all[i]
	}
	return rule{Thing: thing, Effect: converge.Restart}
}

// needsStop reports whether the change is made while its VM is off, because Proxmox would otherwise
// make it in the running guest.
func (ch change) needsStop() bool { return ch.thing == theNICDevice || ch.thing == theDiskSerial }

// hotplugs reports whether a kind of device (network, disk, usb) can be added to a VM while it runs
// (parse_hotplug_features in qemu-server).
func (v *VM) hotplugs(kind string) bool {
	switch features := v.config["hotplug"]; features {
	case "", "1": // network, disk and usb
		return kind != "usb" || v.config["ostype"] == "l26"
	case "0":
		return false
	default:
		return slices.Contains(strings.FieldsFunc(features, func(r rune) bool { return strings.ContainsRune(",; ", r) }), kind) &&
			(kind != "usb" || v.config["ostype"] == "l26")
	}
}
