package proxmox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// change is one difference and the change that removes it.
type change struct {
	Field converge.Field
	thing string // one of the things in rules
	Key   string // config key
	Value string // its new value; "" deletes it
	Disk  string // or: the disk to grow
	Size  Size
}

// Diff returns how vm differs from s. It is pure: it sends no request.
func (s VMSpec) Diff(vm *VM) converge.Diff {
	if vm == nil {
		return converge.Missing(s.String())
	}
	if vm.Unfinished || vm.Locked == "clone" {
		return converge.Diff{{Have: fmt.Sprintf("VM %d, half-made", vm.VMID), Want: s.String(), Effect: converge.Create}}
	}
	out := s.fields(vm)
	if vm.Locked != "" && !out.Empty() {
		out[0].Note = strings.TrimSpace(out[0].Note + " the VM is locked: " + vm.Locked)
	}
	if s.Running && !vm.Running {
		out = append(out, converge.Field{Path: "power", Have: "stopped", Want: "running", Effect: converge.Create})
	}
	return out
}

// changes compares everything except whether the VM runs.
func (s VMSpec) changes(vm *VM) []change {
	d := &differ{vm: vm, running: vm.Running && !vm.Unfinished}
	if vm.Template {
		d.replace(theKind, "kind", "template", "VM")
	}
	if vm.Host != s.Host {
		d.replace(theHost, "host", vm.Host, s.Host)
	}
	if s.VMID != 0 && s.VMID != vm.VMID {
		d.replace(theVMID, "vmid", fmt.Sprint(vm.VMID), fmt.Sprint(s.VMID))
	}
	s.diffProcessor(d, vm)
	d.set(theBalloon, "balloon", vm.Balloon, s.Balloon, "balloon", map[bool]string{false: "0"}[s.Balloon]) // without the key, Proxmox makes one
	d.set(theAgent, "agent", vm.Agent, !s.NoAgent, "agent", wire.ZeroOne(!s.NoAgent))
	d.set(theOnBoot, "onboot", vm.OnBoot, s.OnBoot, "onboot", wire.ZeroOne(s.OnBoot))
	d.set(theStartup, "startup", vm.Startup, s.Startup, "startup", s.Startup)
	if s.Protected == nil && vm.Unfinished {
		s.Protected = new(false) // the clone has its template's
	}
	if s.Protected != nil {
		d.set(theProtection, "protection", vm.Protected, *s.Protected, "protection", wire.ZeroOne(*s.Protected))
	}
	if s.Pool != "" {
		d.set(thePool, "pool", vm.Pool, s.Pool, "", "")
	}
	s.diffIdentity(d, vm)
	s.diffAddress(d, vm)
	s.diffFirmware(d, vm)
	s.diffNICs(d, vm)
	s.diffDisks(d, vm)
	s.diffGPUs(d, vm)
	s.diffUSB(d, vm)
	s.diffSeed(d, vm)
	return d.all
}

// differ collects changes.
type differ struct {
	vm      *VM
	running bool
	all     []change
}

// set adds a change if have and want differ. rules has its effect; for a VM that is off it is an
// update.
func (d *differ) set(thing, path string, have, want any, key, value string) {
	if have != want {
		d.add(change{thing: thing, Field: converge.Field{Path: path, Have: orNone(have), Want: orNone(want)}, Key: key, Value: value})
	}
}

func (d *differ) add(ch change) {
	ch.Field.Effect = ruleOf(ch.thing).Effect
	switch ch.thing {
	case theNIC:
		ch.Field.Effect = d.plugEffect("network")
	case theDisk, theDiskGone:
		ch.Field.Effect = d.plugEffect("disk")
	case theUSB:
		ch.Field.Effect = d.plugEffect("usb")
	}
	if ch.Field.Effect == converge.Restart && (!d.running || d.undoes(ch)) {
		ch.Field.Effect = converge.Update
	}
	d.all = append(d.all, ch)
}

// undoes reports whether a change only reverts a pending value: the current value is the wanted
// one.
func (d *differ) undoes(ch change) bool {
	return ch.Key != "" && slices.ContainsFunc(d.vm.Pending, func(p PendingKey) bool { return p.Key == ch.Key && p.Have == ch.Value })
}

// plugEffect returns the effect of adding or removing a device.
func (d *differ) plugEffect(kind string) converge.Effect {
	if d.vm.hotplugs(kind) {
		return converge.Update
	}
	return converge.Restart
}

func (d *differ) replace(thing, path, have, want string) {
	d.add(change{thing: thing, Field: converge.Field{Path: path, Have: have, Want: want, Note: ruleOf(thing).Reason}})
}

// orNone prints a value, or a word for an empty one.
func orNone(v any) string {
	if s := fmt.Sprint(v); s != "" {
		return s
	}
	return "none"
}

// diffIdentity compares what says whose the VM is: notes, UUID and tags. It wants all our tags and
// the VM's own mark. It keeps tags that a user added, except in a new clone, which inherited its
// template's tags.
func (s VMSpec) diffIdentity(d *differ, vm *VM) {
	uuid := cmp.Or(vm.uuid(), s.uuid)
	s.diffNotes(d, vm, uuid)
	want := s.tags()
	if !vm.Unfinished {
		want = append(want, withoutMarks(s.Owner, vm.Tags)...)
	}
	if vm.config != nil { // nil for a VM that was not read
		if vm.uuid() == "" {
			d.set(theUUID, "uuid", "", "one of its own", "smbios1", wire.ParseLenient(vm.config["smbios1"]).With("uuid", uuid).String())
		}
		want = append(want, markFor(s.Owner, vm.VMID, uuid))
	}
	want = cleanTags(want)
	d.set(theTags, "tags", strings.Join(cleanTags(vm.Tags), ";"), strings.Join(want, ";"), "tags", strings.Join(want, ";"))
}

func (s VMSpec) diffNICs(d *differ, vm *VM) {
	for i, want := range s.NICs {
		key := fmt.Sprintf("net%d", i)
		have, found := vm.nic(i)
		if !found {
			d.set(theNIC, key, "", want.String(), key, want.line(nil))
			continue
		}
		if want.MAC == "" || s.Adopted {
			want.MAC = have.MAC
		}
		if want.Firewall == nil || have.isFirewalled() == *want.Firewall {
			want.Firewall = have.Firewall
		}
		have.MAC, want.MAC = strings.ToUpper(have.MAC), strings.ToUpper(want.MAC)
		thing := theBridge
		if have.MAC != want.MAC || have.MTU != want.MTU || have.Queues != want.Queues {
			thing = theNICDevice
		}
		if have != want {
			d.set(thing, key, have.String(), want.String(), key, want.line(wire.ParseLenient(vm.config[key])))
		}
	}
}

// String describes the interface in a few words.
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
	if n.isFirewalled() {
		parts = append(parts, "firewall")
	}
	return strings.Join(parts, " ")
}

func (n NIC) isFirewalled() bool { return n.Firewall != nil && *n.Firewall }

// diffSeed compares seeds. A VM is configured by its seed at first boot, so another seed needs
// another VM. A seed that was removed does not count as another, and is put back.
func (s VMSpec) diffSeed(d *differ, vm *VM) {
	switch {
	case s.Seed == "" || s.Seed == vm.Seed:
	case vm.Seed == "" || vm.Unfinished:
		d.set(theSeedDrive, "seed", vm.Seed, s.Seed, seedSlot, seedValue(s.Seed))
	default:
		d.replace(theSeed, "seed", vm.Seed, s.Seed)
	}
}

// fieldsOf returns the diff of changes.
func fieldsOf(all []change) converge.Diff {
	out := make(converge.Diff, len(all))
	for i, ch := range all {
		out[i] = ch.Field
	}
	return out
}
