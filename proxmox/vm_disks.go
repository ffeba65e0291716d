package proxmox

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Slots with a meaning of their own.
const (
	bootSlot = "scsi0" // that nodes boot from
	efiSlot  = "efidisk0"
	tpmSlot  = "tpmstate0"
)

// Drive is a volume in a slot of a VM.
type Drive struct {
	Slot   string
	Volume string // id; of a volume that does not exist yet, the storage alone: "local-lvm:"
	Size   Size
	Disc   bool // in a CD drive
}

// Storage returns the storage that the volume is on.
func (d Drive) Storage() string {
	storage, _, _ := strings.Cut(d.Volume, ":")
	return storage
}

// isBase reports whether the volume is a base disk, from which linked clones are made.
func (d Drive) isBase() bool {
	return strings.HasPrefix(d.Volume[strings.LastIndexAny(d.Volume, ":/")+1:], "base-")
}

// planned reports whether the volume does not exist yet.
func (d Drive) planned() bool { return strings.HasSuffix(d.Volume, ":") }

// Drives returns what is in the VM's slots, sorted by slot. Discs that Proxmox writes for cloud-init
// count as disks: they are cloned.
func (v *VM) Drives() []Drive {
	var out []Drive
	for _, slot := range slices.Sorted(maps.Keys(v.config)) {
		p := wire.ParseLenient(v.config[slot])
		if volume := p.GetFirst("file", ""); isVolume(slot) && strings.Contains(volume, ":") {
			out = append(out, Drive{Slot: slot, Volume: volume, Size: wire.ParseDiskSize(p.Get("size")), Disc: p.Get("media") == "cdrom" && !strings.Contains(volume, "-cloudinit")})
		}
	}
	return out
}

// UnconvertedDisks returns the disks of a template that are not base disks, which linked clones need.
// Proxmox first marks a VM as a template and then converts its disks, one by one (template_create
// in qemu-server). A host that crashes in between leaves a template that looks complete. On LVM
// without thin provisioning it converts none, and says nothing.
func (v *VM) UnconvertedDisks() []string {
	if !v.Template {
		return nil
	}
	var out []string
	for _, d := range v.Drives() {
		if !d.Disc && d.Slot != tpmSlot && !d.isBase() && !strings.Contains(d.Volume, "-cloudinit") {
			out = append(out, d.Slot)
		}
	}
	return out
}

// CloudInitDrives returns the slots with drives that Proxmox fills for cloud-init, except the slot
// of our own seed. With two seeds, a guest may read either.
func (v *VM) CloudInitDrives() []string {
	var out []string
	for k, line := range v.config {
		if slotted.MatchString(k) && k != seedSlot && strings.Contains(line, "cloudinit") {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// diskSlots returns the slots that hold disks. CD drives and the disks for the variables of the
// firmware or the TPM do not count.
func diskSlots(config map[string]string) []string {
	var out []string
	for k, line := range config {
		if slotted.MatchString(k) && wire.ParseLenient(line).Get("media") != "cdrom" && !strings.HasPrefix(line, "none") {
			out = append(out, k)
		}
	}
	sortBy(out, compareSlots)
	return out
}

// compareSlots sorts scsi2 before scsi10.
func compareSlots(a, b string) int {
	split := func(s string) (string, int) {
		name := strings.TrimRight(s, "0123456789")
		return name, wire.Number(s[len(name):], 0)
	}
	an, ai := split(a)
	bn, bi := split(b)
	if an != bn {
		return strings.Compare(an, bn)
	}
	return ai - bi
}

func parseDiskProperties(slot string, p wire.Properties) Disk {
	volume := p.GetFirst("file", "")
	storage, _, _ := strings.Cut(volume, ":")
	size := wire.ParseDiskSize(p.Get("size"))
	return Disk{
		Slot: slot, Storage: storage, Size: size, Serial: p.Get("serial"), SSD: p.Bool("ssd"),
		Discard: p.Bool("discard"), IOThread: p.Bool("iothread"), Volume: volume,
		Cache: p.Get("cache"), NoBackup: isOff(p.Get("backup")), NoReplication: isOff(p.Get("replicate")),
	}
}

// isOff reads an option that is on by default; nil: it is on.
func isOff(value string) *bool {
	if value != "0" {
		return nil
	}
	return new(true)
}

// Disk returns the disk in slot.
func (v *VM) Disk(slot string) (Disk, bool) {
	for _, d := range v.Disks {
		if d.Slot == slot {
			return d, true
		}
	}
	return Disk{}, false
}

// extraDisks returns all disks except the one that the VM boots from. It includes disks without a
// serial, which are not ours. If the VM may boot from several disks, the first that exists counts
// as the boot disk.
func (v *VM) extraDisks() []Disk {
	order := strings.Split(wire.ParseLenient(v.config["boot"]).Get("order"), ";")
	order = append(order, v.config["bootdisk"], "scsi0", "virtio0", "sata0", "ide0")
	for _, slot := range order {
		if _, found := v.Disk(slot); found {
			return slices.DeleteFunc(slices.Clone(v.Disks), func(d Disk) bool { return d.Slot == slot && d.Serial == "" })
		}
	}
	return v.Disks
}

// DoomedDisks returns the extra disks that go with the VM when it is destroyed.
func (v *VM) DoomedDisks() []Disk {
	return slices.DeleteFunc(slices.Clone(v.extraDisks()), v.outlives)
}

// Volumes returns the ids of the disks that the configuration names, in slots or unused, current
// and pending, sorted. It includes Proxmox's own disc for cloud-init, but no ISOs.
func (v *VM) Volumes() []string {
	var out []string
	note := func(key, line string) {
		p := wire.ParseLenient(line)
		id := p.GetFirst("file", "")
		disc := p.Get("media") == "cdrom" && !strings.Contains(id, "-cloudinit")
		if namesVolume(key) && strings.Contains(id, ":") && !disc {
			out = append(out, id)
		}
	}
	for key, line := range v.config {
		note(key, line)
	}
	for _, p := range v.Pending {
		note(p.Key, p.Have)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namesVolume reports whether a key of a configuration names a volume.
func namesVolume(key string) bool {
	return isVolume(key) || strings.HasPrefix(key, "unused") || key == "vmstate"
}

// storagesInUse returns the storages that hold something of the VM, sorted.
func (v *VM) storagesInUse() []string {
	var out []string
	for _, id := range v.Volumes() {
		storage, _, _ := strings.Cut(id, ":")
		out = append(out, storage)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isVolume reports whether a config key holds a volume.
func isVolume(key string) bool {
	return slotted.MatchString(key) || strings.HasPrefix(key, "efidisk") || strings.HasPrefix(key, "tpmstate")
}
