package proxmox

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// diffDisks compares disks. It finds the first by its slot, because the VM boots from that slot,
// and the others by their serials, in any slot: the order in a file may change, and disks must
// never be confused.
func (s VMSpec) diffDisks(d *differ, vm *VM) {
	slots := s.slots(vm)
	wanted := map[string]bool{}
	for i, want := range s.Disks {
		if i == 0 && s.Adopted {
			continue // its boot disk stays as it is
		}
		want.Slot = slots[i]
		wanted[want.Slot] = true
		path := "disk/" + want.Slot
		have, found := vm.Disk(want.Slot)
		if !found {
			text := fmt.Sprintf("%s on %s", want.Size, want.Storage)
			d.set(theDisk, path, "", cmp.Or(want.Volume, text), want.Slot, want.line(nil))
			continue
		}
		if i > 0 && want.Slot != bootSlot && (want.Volume != "" || vm.outlives(have)) && want.Volume != have.Volume { // which is not to be grown either
			d.replace(theDiskVolume, path+"/volume", have.Volume, cmp.Or(want.Volume, "a disk of its own"))
			continue
		}
		all := want.filledFrom(have)
		// Disks are not moved: the storage is chosen when a disk is made.
		if have.options() != all.options() {
			thing := theDiskOptions
			switch {
			case have.Serial != want.Serial:
				thing = theDiskSerial
			case have.device() == all.device():
				thing = theDiskBackups
			}
			d.set(thing, path+"/options", have.options(), all.options(), want.Slot, want.line(wire.ParseLenient(vm.config[want.Slot])))
		}
		switch {
		case want.Size == 0 || want.Size == have.Size:
		case want.Size > have.Size:
			d.add(change{
				thing: theDiskGrown, Disk: want.Slot, Size: want.Size,
				Field: converge.Field{Path: path + "/size", Have: have.Size.String(), Want: want.Size.String()},
			})
		default:
			d.replace(theDiskShrunk, path+"/size", have.Size.String(), want.Size.String())
		}
	}
	for _, have := range vm.Disks {
		// A disk without a serial is not ours.
		if have.Serial != "" && !wanted[have.Slot] && !vm.Unfinished && !s.Adopted {
			note := "its volume is kept as an unused disk of the VM"
			if vm.outlives(have) {
				note = have.Volume + " stays as it is"
			}
			d.add(change{
				thing: theDiskGone, Key: have.Slot,
				Field: converge.Field{Path: "disk/" + have.Slot, Have: have.Serial + ", " + have.Size.String(), Want: "detached", Note: note},
			})
		}
	}
}

// slots returns the slot of each disk of s in vm, present or planned.
func (s VMSpec) slots(vm *VM) []string {
	out, taken := make([]string, len(s.Disks)), map[string]bool{}
	for _, have := range vm.Disks {
		taken[have.Slot] = true
	}
	for slot := range vm.config { // CD drives use slots as well
		taken[slot] = true
	}
	for i, want := range s.Disks {
		if i == 0 || want.Serial == "" {
			out[i] = want.Slot
			taken[want.Slot] = true
			continue
		}
		for _, have := range vm.Disks {
			if have.Serial == want.Serial {
				out[i] = have.Slot
			}
		}
	}
	for i, want := range s.Disks {
		if out[i] != "" {
			continue
		}
		out[i] = want.Slot
		for n := 1; taken[out[i]]; n++ {
			out[i] = fmt.Sprintf("scsi%d", n)
		}
		taken[out[i]] = true
	}
	return out
}

// filledFrom returns d with the options that it leaves open as have has them.
func (d Disk) filledFrom(have Disk) Disk {
	d.Cache, d.NoBackup, d.NoReplication = cmp.Or(d.Cache, have.Cache), cmp.Or(d.NoBackup, have.NoBackup), cmp.Or(d.NoReplication, have.NoReplication)
	return d
}

// options are all options of a disk that a spec may name.
func (d Disk) options() string {
	parts := []string{d.device()}
	for _, o := range []struct {
		name string
		off  *bool
	}{{"no backup", d.NoBackup}, {"no replication", d.NoReplication}} {
		if o.off != nil && *o.off {
			parts = append(parts, o.name)
		}
	}
	return strings.Join(parts, " ")
}

// device are the options of the guest's device.
func (d Disk) device() string {
	var parts []string
	if d.Serial != "" {
		parts = append(parts, "serial "+d.Serial)
	}
	for _, o := range []struct {
		name string
		on   bool
	}{{"ssd", d.SSD}, {"discard", d.Discard}, {"iothread", d.IOThread}, {"cache " + d.Cache, d.Cache != "" && d.Cache != "none"}} {
		if o.on {
			parts = append(parts, o.name)
		}
	}
	return strings.Join(parts, " ")
}
