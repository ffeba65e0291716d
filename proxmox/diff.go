package proxmox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/drift"
)

// change is one difference and what makes it go away.
type change struct {
	field drift.Field
	key   string // config key
	value string // its new value, "" to delete it
	disk  string // or: the disk to grow
	size  Size
}

// Diff returns how vm differs from s. It is pure: nothing is asked.
func (s VMSpec) Diff(vm *VM) drift.Diff {
	if vm == nil {
		return drift.Missing(s.String())
	}
	if vm.Unfinished || vm.Locked == "clone" {
		return drift.Diff{{Have: fmt.Sprintf("VM %d, half-made", vm.VMID), Want: s.String(), Effect: drift.Create}}
	}
	var out drift.Diff
	for _, c := range s.changes(vm) {
		out = append(out, c.field)
	}
	for _, p := range vm.Pending {
		if !slices.ContainsFunc(out, func(f drift.Field) bool { return f.Path == p.Key }) {
			out = append(out, drift.Field{Path: p.Key, Have: orNone(p.Have), Want: orNone(p.Want), Effect: drift.Restart, Note: "set, in effect after a restart"})
		}
	}
	if vm.Locked != "" && !out.Empty() {
		out[0].Note = strings.TrimSpace(out[0].Note + " the VM is locked: " + vm.Locked)
	}
	if s.Running && !vm.Running {
		out = append(out, drift.Field{Path: "power", Have: "stopped", Want: "running", Effect: drift.Create})
	}
	return out
}

// changes compares all but the power.
func (s VMSpec) changes(vm *VM) []change {
	d := &differ{running: vm.Running && !vm.Unfinished}
	if vm.Template {
		d.replace("kind", "template", "VM", "a template cannot become a VM again")
	}
	if vm.Host != s.Host {
		d.replace("host", vm.Host, s.Host, "a VM with passed-through devices cannot be moved while it lives")
	}
	if s.VMID != 0 && s.VMID != vm.VMID {
		d.replace("vmid", fmt.Sprint(vm.VMID), fmt.Sprint(s.VMID), "")
	}
	d.set("cores", vm.Cores, s.Cores, drift.Restart, "cores", fmt.Sprint(s.Cores))
	if vm.config["sockets"] != "" && vm.config["sockets"] != "1" {
		d.set("sockets", vm.config["sockets"], "1", drift.Restart, "sockets", "1")
	}
	d.set("memory", vm.Memory, s.Memory, drift.Restart, "memory", fmt.Sprint(s.Memory.mib()))
	d.set("cpu", orNone(vm.CPUType), s.cpuType(), drift.Restart, "cpu", s.cpuType())
	d.set("numa", vm.NUMA, s.NUMA, drift.Restart, "numa", zeroOne(s.NUMA))
	d.set("balloon", vm.Balloon, false, drift.Restart, "balloon", "0")
	d.set("agent", vm.Agent, true, drift.Restart, "agent", "1")
	d.set("onboot", vm.OnBoot, s.OnBoot, drift.Update, "onboot", zeroOne(s.OnBoot))
	d.set("startup", vm.Startup, s.Startup, drift.Update, "startup", s.Startup)
	d.set("description", vm.Description, strings.TrimSpace(s.Description), drift.Update, "description", s.Description)
	s.diffTags(d, vm)
	s.diffNICs(d, vm)
	s.diffDisks(d, vm)
	s.diffGPUs(d, vm)
	s.diffSeed(d, vm)
	return d.all
}

// differ collects changes.
type differ struct {
	running bool
	all     []change
}

// set adds a change when have and want differ. Only a running VM needs a restart.
func (d *differ) set(path string, have, want any, effect drift.Effect, key, value string) {
	if have == want {
		return
	}
	if effect == drift.Restart && !d.running {
		effect = drift.Update
	}
	d.all = append(d.all, change{
		field: drift.Field{Path: path, Have: orNone(have), Want: orNone(want), Effect: effect}, key: key, value: value,
	})
}

func (d *differ) replace(path, have, want, note string) {
	d.all = append(d.all, change{field: drift.Field{Path: path, Have: have, Want: want, Effect: drift.Replace, Note: note}})
}

// orNone prints a value, so that nothing can be told from something.
func orNone(v any) string {
	if s := fmt.Sprint(v); s != "" {
		return s
	}
	return "none"
}

func zeroOne(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// diffTags wants all our tags; those that somebody added stay, but for a clone
// that has just inherited its template's.
func (s VMSpec) diffTags(d *differ, vm *VM) {
	want := s.tags()
	if !vm.Unfinished {
		want = cleanTags(append(want, vm.Tags...))
	}
	d.set("tags", strings.Join(cleanTags(vm.Tags), ";"), strings.Join(want, ";"), drift.Update, "tags", strings.Join(want, ";"))
}

func (s VMSpec) diffNICs(d *differ, vm *VM) {
	for i, want := range s.NICs {
		key := fmt.Sprintf("net%d", i)
		old := loose(vm.config[key])
		if i >= len(vm.NICs) {
			d.set(key, "", want.String(), drift.Update, key, want.line(nil))
			continue
		}
		have := vm.NICs[i]
		if want.MAC == "" {
			want.MAC = have.MAC
		}
		have.MAC, want.MAC = strings.ToUpper(have.MAC), strings.ToUpper(want.MAC)
		effect := drift.Update
		if have.MAC != want.MAC || have.MTU != want.MTU || have.Queues != want.Queues {
			effect = drift.Restart
		}
		if have != want {
			d.set(key, have.String(), want.String(), effect, key, want.line(old))
		}
	}
}

// String writes the interface in a few words.
func (n NIC) String() string {
	parts := []string{n.Bridge}
	if n.MAC != "" {
		parts = append(parts, n.MAC)
	}
	for _, p := range []struct {
		name string
		n    int
	}{{"vlan", n.VLAN}, {"mtu", n.MTU}, {"queues", n.Queues}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.name, p.n))
		}
	}
	return strings.Join(parts, " ")
}

func (s VMSpec) diffDisks(d *differ, vm *VM) {
	for _, want := range s.Disks {
		path := "disk/" + want.Slot
		have, found := vm.Disk(want.Slot)
		if !found {
			d.set(path, "", fmt.Sprintf("%s on %s", want.Size, want.Storage), drift.Update, want.Slot, want.line(nil))
			continue
		}
		// Disks are not moved: where one lies is decided when it is made.
		options := func(x Disk) string {
			return Disk{Serial: x.Serial, SSD: x.SSD, Discard: x.Discard, IOThread: x.IOThread}.options()
		}
		d.set(path+"/options", options(have), options(want), drift.Restart, want.Slot, want.line(loose(vm.config[want.Slot])))
		switch {
		case want.Size == 0 || want.Size == have.Size:
		case want.Size > have.Size:
			d.all = append(d.all, change{
				field: drift.Field{Path: path + "/size", Have: have.Size.String(), Want: want.Size.String(), Effect: drift.Update},
				disk:  want.Slot, size: want.Size,
			})
		default:
			d.replace(path+"/size", have.Size.String(), want.Size.String(), "Proxmox does not shrink disks")
		}
	}
}

func (d Disk) options() string {
	var parts []string
	if d.Serial != "" {
		parts = append(parts, "serial "+d.Serial)
	}
	for _, o := range []struct {
		name string
		on   bool
	}{{"ssd", d.SSD}, {"discard", d.Discard}, {"iothread", d.IOThread}} {
		if o.on {
			parts = append(parts, o.name)
		}
	}
	return strings.Join(parts, " ")
}

func (s VMSpec) diffGPUs(d *differ, vm *VM) {
	have := map[string]HostPCI{}
	for _, g := range vm.GPUs {
		have[g.Slot] = g
	}
	for i, want := range s.GPUs {
		want.Slot = fmt.Sprintf("hostpci%d", i)
		old := have[want.Slot]
		delete(have, want.Slot)
		if old != want {
			d.set(want.Slot, old.String(), want.String(), drift.Restart, want.Slot, want.line())
		}
	}
	for _, old := range vm.GPUs {
		// A device without a mapping was put there by root, who alone can take it out.
		if _, extra := have[old.Slot]; extra && old.Mapping != "" {
			d.set(old.Slot, old.String(), "", drift.Restart, old.Slot, "")
		}
	}
}

// String writes the device in a few words.
func (h HostPCI) String() string {
	if h.Mapping == "" {
		if h.Slot == "" {
			return ""
		}
		return "a device without a mapping"
	}
	out := h.Mapping
	if h.PCIe {
		out += " pcie"
	}
	if h.ROMBar {
		out += " rombar"
	}
	return out
}

// diffSeed: a VM is what its seed made of it at first boot, so another seed
// makes another VM. A seed that was taken out says nothing and is put back.
func (s VMSpec) diffSeed(d *differ, vm *VM) {
	switch {
	case s.Seed == "" || s.Seed == vm.Seed:
	case vm.Seed == "" || vm.Unfinished:
		d.set("seed", vm.Seed, s.Seed, drift.Restart, seedSlot, seedValue(s.Seed))
	default:
		d.replace("seed", vm.Seed, s.Seed, "the seed is read at the first boot alone")
	}
}
