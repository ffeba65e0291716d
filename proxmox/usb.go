package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// HostUSB is a USB device of the host that a VM has.
type HostUSB struct {
	Slot    string // usb0; empty in a spec
	Mapping string // id of the resource mapping
}

// USBDevice is a USB device of a host as mappings name it.
type USBDevice struct {
	ID   string // vendor and product, 10c4:ea60
	Port string // bus and port, 1-2.3; empty: any
}

// String names the device: "10c4:ea60 in port 1-2.3".
func (d USBDevice) String() string {
	switch {
	case d.Port == "":
		return d.ID
	case d.ID == "":
		return "port " + d.Port
	}
	return d.ID + " in port " + d.Port
}

// MayBe reports whether two descriptions may be of one device: QEMU takes any device of an id without a port.
func (d USBDevice) MayBe(o USBDevice) bool {
	if d.Port != "" && o.Port != "" {
		return d.Port == o.Port
	}
	return d.ID == o.ID || d.ID == "" || o.ID == ""
}

// USBMapping is a resource mapping of a USB device of one host.
type USBMapping struct {
	ID, Description, Host string
	Device                USBDevice
}

// line is the entry of a mapping.
func (m USBMapping) line() string {
	return wire.Properties{{Key: "node", Value: m.Host}, {Key: "id", Value: m.Device.ID}}.With("path", m.Device.Port).String()
}

// USBMappingState is the observed state of a mapping.
type USBMappingState struct {
	ID, Description string
	Devices         map[string][]USBDevice // by host; Proxmox starts no VM with several of one host
	Problems        []string               // what does not fit the host that was checked
}

// Diff returns how have differs from m, other than by what is plugged in. It is pure.
func (m USBMapping) Diff(have *USBMappingState) converge.Diff {
	if have == nil {
		return converge.Missing("mapping of 1 USB device")
	}
	var text string
	for _, d := range have.Devices[m.Host] {
		text += d.String()
	}
	out := converge.Compare("device", text, m.Device.String(), converge.Update)
	return append(out, converge.Compare("description", have.Description, m.Description, converge.Update)...)
}

// USBMappings returns the mappings of USB devices that the token may see, sorted by id. If host is not
// empty, Proxmox compares them with what is plugged in there.
func (c *PCIClient) USBMappings(ctx context.Context, host string) ([]USBMappingState, error) {
	all, err := c.readMappings(ctx, mappingUSB, host)
	if err != nil {
		return nil, err
	}
	out := make([]USBMappingState, len(all))
	for i, e := range all {
		out[i] = USBMappingState{ID: e.ID, Description: e.Description, Devices: map[string][]USBDevice{}, Problems: e.problems()}
		for _, line := range e.Map {
			p := wire.ParseLenient(line)
			out[i].Devices[p.Get("node")] = append(out[i].Devices[p.Get("node")], USBDevice{strings.ToLower(p.Get("id")), p.Get("path")})
		}
	}
	return out, nil
}

// RewriteUSBMapping creates the mapping, or rewrites one that differs. Proxmox shows what is plugged in
// only to those with Sys.Modify on /, so whether the device is there is known afterwards: one that was
// created for a device that is not there is deleted again.
func (c *PCIClient) RewriteUSBMapping(ctx context.Context, m USBMapping) error {
	find := func() (*USBMappingState, error) {
		all, err := c.USBMappings(ctx, m.Host)
		i := slices.IndexFunc(all, func(o USBMappingState) bool { return o.ID == m.ID })
		if i < 0 {
			return nil, err
		}
		return &all[i], err
	}
	have, err := find()
	if err != nil {
		return err
	}
	made := have == nil
	if !m.Diff(have).Empty() {
		converge.Progressf(ctx, "mapping %s: USB device %s", m.ID, m.Device)
		err = c.pve.Retry(ctx, m.Host, "", func() error {
			return c.saveMapping(ctx, mappingUSB, m.ID, have != nil, api.Params{"map": []string{m.line()}, "description": m.Description})
		}, func() (bool, error) {
			have, err = find()
			return err == nil && m.Diff(have).Empty(), err
		})
		if err != nil {
			return fmt.Errorf("mapping %s: %w", m.ID, err)
		}
		if have, err = find(); err != nil {
			return err
		}
	}
	switch {
	case have == nil:
		return hiddenMappingError(mappingUSB, m.ID)
	case len(have.Problems) == 0:
		return nil
	case made:
		err = c.DeleteUSBMapping(ctx, m.ID)
	}
	return errors.Join(converge.Permanent(fmt.Errorf("mapping %s does not fit %s: %s\n  plug the device in, or correct the file: lsusb on %s lists what is there",
		m.ID, m.Host, strings.Join(have.Problems, "; "), m.Host)), err)
}

// DeleteUSBMapping deletes a mapping of a USB device. A missing mapping is not an error.
func (c *PCIClient) DeleteUSBMapping(ctx context.Context, id string) error {
	return c.deleteMapping(ctx, mappingUSB, id)
}

// USBClaim is a VM's claim on a USB device.
type USBClaim struct {
	pci.Claim
	Device USBDevice
}

// USBClaims lists the USB devices that VMs of a host have by their configurations, running or not.
func (c *PCIClient) USBClaims(ctx context.Context, host string) ([]USBClaim, error) {
	mappings, err := c.USBMappings(ctx, host)
	if err != nil {
		return nil, err
	}
	vms, err := c.claimants(ctx, "", []string{host})
	if err != nil {
		return nil, err
	}
	var out []USBClaim
	for _, vm := range vms {
		for i := range unit.MaxUSB {
			slot := "usb" + strconv.Itoa(i)
			p := wire.ParseLenient(vm.Devices[slot])
			cl := USBClaim{Claim: pci.Claim{
				Host: vm.Host, VMID: vm.VMID, Name: vm.Name, Tags: vm.Tags, Running: vm.Running, OnBoot: vm.OnBoot, Template: vm.Template, Slot: slot, Mapping: p.Get("mapping"),
			}}
			named := p.GetFirst("host", "")
			at := slices.IndexFunc(mappings, func(m USBMappingState) bool { return m.ID == cl.Mapping && len(m.Devices[host]) > 0 })
			switch {
			case vm.Template:
			case at >= 0:
				cl.Device = mappings[at].Devices[host][0]
				out = append(out, cl)
			case strings.Contains(named, ":"):
				cl.Device.ID = strings.ReplaceAll(strings.ToLower(named), "0x", "")
				out = append(out, cl)
			case strings.Contains(named, "-"):
				cl.Device.Port = named
				out = append(out, cl)
			}
		}
	}
	return out, nil
}

// OfUSB comes before the id of a mapping of USB devices where it is beside those of PCI devices, as in
// [Holders.Mapping]: the same id may be of both.
const OfUSB = "usb "

// DetachUSB takes the device in a slot, such as usb1, out of a VM that a [Client] has read, and reads vm
// again.
func DetachUSB(ctx context.Context, vm *VM, slot string) error {
	c, now, err := waitForEarlierTasks(ctx, vm)
	if err != nil {
		return err
	}
	d := &differ{vm: now, running: now.Running}
	d.set(theUSB, slot, now.Config()[slot], "", slot, "")
	if err := c.VMs.change(ctx, now, d.all); err != nil {
		return fmt.Errorf("detach %s from %s: %w", slot, now, err)
	}
	return c.VMs.renew(ctx, vm)
}

// USBSlots are the slots of a VM that use a mapping.
func (v *VM) USBSlots(mapping string) (out []string) {
	for i := range unit.MaxUSB {
		slot := "usb" + strconv.Itoa(i)
		if wire.ParseLenient(v.config[slot]).Get("mapping") == mapping {
			out = append(out, slot)
		}
	}
	return out
}

// diffUSB compares USB devices. Those without a mapping are root's, who alone may change them: their slots
// are left alone.
func (s VMSpec) diffUSB(d *differ, vm *VM) {
	next := 0
	for i := range unit.MaxUSB {
		slot := "usb" + strconv.Itoa(i)
		line := vm.config[slot]
		have := wire.ParseLenient(line).Get("mapping")
		if line != "" && have == "" {
			continue
		}
		want, value := "", ""
		if next < len(s.USB) {
			want = s.USB[next].Mapping
			value = "mapping=" + want
			next++
		}
		if have != want {
			d.set(theUSB, slot, have, want, slot, value)
		}
	}
}
