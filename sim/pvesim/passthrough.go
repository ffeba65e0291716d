package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
)

// candidate is one choice for a hostpciN: the functions that it would take.
type candidate []*PCIDevice

// hostpci returns the indexes of the passed-through devices, in order.
func hostpci(conf map[string]string) (out []int) {
	for k := range conf {
		if n, ok := strings.CutPrefix(k, "hostpci"); ok {
			out = append(out, atoi(n))
		}
	}
	slices.Sort(out)
	return out
}

// passThrough finds out which functions of the host a VM gets at its start, and
// refuses as Proxmox does (PVE/QemuServer/PCI.pm).
func (w worker) passThrough(v *vm) ([]guest.PCI, []string, error) {
	indexes := hostpci(v.conf)
	if len(indexes) == 0 {
		return nil, nil, nil
	}
	h := w.s.hosts[v.node]
	choices := map[int][]candidate{}
	for _, i := range indexes {
		key := "hostpci" + strconv.Itoa(i)
		d := w.s.props(key, v.conf[key])
		found, err := w.s.candidates(h, d)
		if err != nil {
			return nil, nil, err
		}
		if d["mdev"] != "" && slices.ContainsFunc(found, func(c candidate) bool { return len(c) > 1 }) {
			return nil, nil, die("cannot use mediated device with multifunction device")
		}
		choices[i] = found
		if d["pcie"] == "1" && !strings.Contains(v.conf["machine"], "q35") {
			return nil, nil, die("q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 510.")
		}
	}
	chosen, err := w.s.choose(h, v, indexes, choices)
	if err != nil {
		return nil, nil, err
	}
	if err := w.bind(h, v, chosen); err != nil {
		return nil, nil, err
	}
	var out []guest.PCI
	var held []string
	for n, i := range indexes {
		for fn, d := range chosen[i] {
			held = append(held, d.Address)
			out = append(out, guestPCI(d, n, fn))
		}
	}
	return out, held, nil
}

// candidates are the choices that a hostpciN's value leaves.
func (s *state) candidates(h *host, d map[string]string) ([]candidate, error) {
	switch {
	case d["host"] != "" && d["mapping"] != "":
		return nil, die("Cannot set both 'host' and 'mapping'.")
	case d["mapping"] != "":
		return s.mapped(h, d["mapping"])
	case d["host"] == "":
		return nil, die("Either 'host' or 'mapping' must be set.")
	}
	var all candidate
	for slot := range strings.SplitSeq(d["host"], ";") {
		found := h.functions(slot)
		if len(found) == 0 {
			return nil, die("no PCI device found for '%s'", slot)
		}
		all = append(all, found...)
	}
	return []candidate{all}, nil
}

func (s *state) mapped(h *host, id string) ([]candidate, error) {
	m := s.mappings[id]
	if m == nil {
		return nil, die("PCI device mapping not found for '%s'", id)
	}
	var out []candidate
	for _, entry := range m.entries {
		e := s.entryProps(entry)
		if e["node"] != h.Name {
			continue
		}
		if err := s.assertValid(m, e); err != nil {
			return nil, die("PCI device mapping invalid (hardware probably changed): %s\n", err)
		}
		for path := range strings.SplitSeq(e["path"], ";") {
			if found := h.functions(path); len(found) > 0 {
				out = append(out, found)
			}
		}
	}
	if len(out) == 0 {
		return nil, die("PCI device mapping not found for '%s'", id)
	}
	return out, nil
}

// functions are those of a slot (0000:01:00, all of them) or one (0000:01:00.0).
func (h *host) functions(path string) (out candidate) {
	if strings.Count(path, ":") == 1 {
		path = "0000:" + path
	}
	for _, address := range slices.Sorted(maps.Keys(h.devices)) {
		if address == path || strings.HasPrefix(address, path+".") {
			out = append(out, h.devices[address])
		}
	}
	return out
}

// choose gives every hostpciN one of its candidates: first those that have no
// choice, then the others in turn what is free.
func (s *state) choose(h *host, v *vm, indexes []int, choices map[int][]candidate) (map[int]candidate, error) {
	chosen, mine := map[int]candidate{}, map[string]bool{}
	take := func(i int, c candidate) error {
		for _, d := range c {
			if mine[d.Address] {
				return die("device '%s' assigned more than once", d.Address)
			}
			mine[d.Address] = true
		}
		chosen[i] = c
		return nil
	}
	for _, i := range indexes {
		if len(choices[i]) == 1 {
			if err := take(i, choices[i][0]); err != nil {
				return nil, err
			}
		}
	}
	for _, i := range indexes {
		if chosen[i] != nil {
			continue
		}
		free := slices.IndexFunc(choices[i], func(c candidate) bool {
			return !slices.ContainsFunc(c, func(d *PCIDevice) bool { return mine[d.Address] || s.holder(h, d.Address) != nil })
		})
		if free < 0 {
			return nil, die("could not find a free device for 'hostpci%d'", i)
		}
		if err := take(i, choices[i][free]); err != nil {
			return nil, err
		}
	}
	for _, i := range indexes {
		for _, d := range chosen[i] {
			if other := s.holder(h, d.Address); other != nil && other != v {
				return nil, die("PCI device '%s' already in use by VMID '%d'", d.Address, other.id)
			}
		}
	}
	return chosen, nil
}

// holder returns the VM that has a function.
func (s *state) holder(h *host, address string) *vm {
	for _, v := range s.vms {
		if v.node == h.Name && slices.Contains(v.pci, address) {
			return v
		}
	}
	return nil
}

// bind is vfio taking the devices over, with everything else in their groups.
func (w worker) bind(h *host, v *vm, chosen map[int]candidate) error {
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		for _, d := range chosen[i] {
			switch {
			case h.NoIOMMU:
				return die("cannot prepare PCI pass-through, IOMMU not present")
			case d.Group < 0:
				return die("Cannot open iommu_group: No such file or directory")
			case d.HeldByHost:
				return w.groupNotViable(d)
			}
			for _, other := range h.devices {
				if other.Group != d.Group || strings.HasPrefix(other.Class, "06") {
					continue
				}
				if by := w.s.holder(h, other.Address); by != nil && by != v || other.HeldByHost {
					return w.groupNotViable(d)
				}
			}
		}
	}
	return nil
}

func (w worker) groupNotViable(d *PCIDevice) error {
	w.log("kvm: -device vfio-pci,host=%s: vfio %s: group %d is not viable", d.Address, d.Address, d.Group)
	w.log("Please ensure all devices within the iommu_group are bound to their vfio bus driver.")
	return die("start failed: QEMU exited with code 1")
}

func guestPCI(d *PCIDevice, slot, function int) guest.PCI {
	hex := func(s string) uint64 { n, _ := strconv.ParseUint(s, 16, 32); return n }
	vendor, device, _ := strings.Cut(d.ID, ":")
	subVendor, subDevice, _ := strings.Cut(d.Subsystem, ":")
	return guest.PCI{
		Address: fmt.Sprintf("0000:%02x:00.%d", slot+1, function), Host: d.Address,
		Vendor: uint16(hex(vendor)), Device: uint16(hex(device)), SubVendor: uint16(hex(subVendor)), SubDevice: uint16(hex(subDevice)),
		Class: uint32(hex(d.Class)), Model: d.Product,
	}
}
