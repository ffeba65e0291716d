package pci

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// candidate is one choice for a hostpciN: the functions that it would take.
type candidate []*model.PCIDevice

// Slots returns the indexes of the passed-through devices, in order.
func Slots(conf map[string]string) (out []int) {
	for k := range conf {
		if n, ok := strings.CutPrefix(k, "hostpci"); ok {
			out = append(out, schema.Atoi(n))
		}
	}
	slices.Sort(out)
	return out
}

// PassThrough finds out which functions of the host a VM gets at its start, and
// refuses as Proxmox does (PVE/QemuServer/PCI.pm).
func PassThrough(w world.Worker, v *world.VM) ([]guest.PCI, []string, error) {
	indexes := Slots(v.Conf)
	if len(indexes) == 0 {
		return nil, nil, nil
	}
	h := w.State.Hosts[v.Node]
	choices := map[int][]candidate{}
	for _, i := range indexes {
		key := "hostpci" + strconv.Itoa(i)
		d := w.State.Props(key, v.Conf[key])
		found, err := Candidates(w.State, h, d)
		if err != nil {
			return nil, nil, err
		}
		if d["mdev"] != "" && slices.ContainsFunc(found, func(c candidate) bool { return len(c) > 1 }) {
			return nil, nil, answer.Die("cannot use mediated device with multifunction device")
		}
		choices[i] = found
		if d["pcie"] == "1" && !strings.Contains(v.Conf["machine"], "q35") {
			return nil, nil, answer.Die("q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 510.")
		}
	}
	chosen, err := choose(w.State, h, v, indexes, choices)
	if err != nil {
		return nil, nil, err
	}
	if err := bind(w, h, v, chosen); err != nil {
		return nil, nil, err
	}
	var out []guest.PCI
	var held []string
	for n, i := range indexes {
		for fn, d := range chosen[i] {
			held = append(held, d.Address)
			card := guestPCI(d, n, fn)
			card.InfoROM = remembers(w.State, h, d)
			out = append(out, card)
		}
	}
	return out, held, nil
}

// Candidates are the choices that a hostpciN's value leaves.
func Candidates(s *world.State, h *world.Host, d map[string]string) ([]candidate, error) {
	switch {
	case d["host"] != "" && d["mapping"] != "":
		return nil, answer.Die("Cannot set both 'host' and 'mapping'.")
	case d["mapping"] != "":
		return mappedCandidates(s, h, d["mapping"])
	case d["host"] == "":
		return nil, answer.Die("Either 'host' or 'mapping' must be set.")
	}
	var all candidate
	for slot := range strings.SplitSeq(d["host"], ";") {
		found := functions(h, slot)
		if len(found) == 0 {
			return nil, answer.Die("no PCI device found for '%s'", slot)
		}
		all = append(all, found...)
	}
	return []candidate{all}, nil
}

func mappedCandidates(s *world.State, h *world.Host, id string) ([]candidate, error) {
	m := s.Mappings[id]
	if m == nil {
		return nil, answer.Die("PCI device mapping not found for '%s'", id)
	}
	var out []candidate
	for _, entry := range m.Entries {
		e := EntryProps(s, entry)
		if e["node"] != h.Name {
			continue
		}
		if err := assertValid(s, m, e); err != nil {
			return nil, answer.Die("PCI device mapping invalid (hardware probably changed): %s\n", err)
		}
		var together candidate // the paths of one entry go to one machine
		for path := range strings.SplitSeq(e["path"], ";") {
			together = append(together, functions(h, path)...)
		}
		if len(together) > 0 {
			out = append(out, together)
		}
	}
	if len(out) == 0 {
		return nil, answer.Die("PCI device mapping not found for '%s'", id)
	}
	return out, nil
}

// functions are those of a slot (0000:01:00, all of them) or one (0000:01:00.0).
func functions(h *world.Host, path string) (out candidate) {
	if strings.Count(path, ":") == 1 {
		path = "0000:" + path
	}
	for _, address := range slices.Sorted(maps.Keys(h.Devices)) {
		if address == path || strings.HasPrefix(address, path+".") {
			out = append(out, h.Devices[address])
		}
	}
	return out
}

// choose gives every hostpciN one of its candidates: first those that have no
// choice, then the others in turn what is free.
func choose(s *world.State, h *world.Host, v *world.VM, indexes []int, choices map[int][]candidate) (map[int]candidate, error) {
	chosen, mine := map[int]candidate{}, map[string]bool{}
	take := func(i int, c candidate) error {
		for _, d := range c {
			if mine[d.Address] {
				return answer.Die("device '%s' assigned more than once", d.Address)
			}
			mine[d.Address] = true
		}
		chosen[i] = c
		return nil
	}
	for _, i := range indexes { // in their order, one without a choice too
		if len(choices[i]) == 1 {
			if err := take(i, choices[i][0]); err != nil {
				return nil, err
			}
			continue
		}
		free := slices.IndexFunc(choices[i], func(c candidate) bool {
			return !slices.ContainsFunc(c, func(d *model.PCIDevice) bool { return mine[d.Address] || holder(s, h, d.Address) != nil })
		})
		if free < 0 {
			return nil, answer.Die("could not find a free device for 'hostpci%d'", i)
		}
		if err := take(i, choices[i][free]); err != nil {
			return nil, err
		}
	}
	for _, i := range indexes {
		for _, d := range chosen[i] {
			if other := holder(s, h, d.Address); other != nil && other != v {
				return nil, answer.Die("PCI device '%s' already in use by VMID '%d'", d.Address, other.ID)
			}
		}
	}
	return chosen, nil
}

// holder returns the VM that has a function.
func holder(s *world.State, h *world.Host, address string) *world.VM {
	for _, v := range s.VMs {
		if v.Node == h.Name && slices.Contains(v.PCI, address) {
			return v
		}
	}
	return nil
}

// bind is vfio taking the devices over, with everything else in their groups.
func bind(w world.Worker, h *world.Host, v *world.VM, chosen map[int]candidate) error {
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		for _, d := range chosen[i] {
			switch {
			case h.NoIOMMU:
				return answer.Die("cannot prepare PCI pass-through, IOMMU not present")
			case d.Group < 0:
				return answer.Die("Cannot open iommu_group: No such file or directory")
			case d.HeldByHost:
				return groupNotViable(w, d)
			}
			for _, other := range h.Devices {
				if other.Group != d.Group || strings.HasPrefix(other.Class, "06") {
					continue
				}
				if by := holder(w.State, h, other.Address); by != nil && by != v || other.HeldByHost {
					return groupNotViable(w, d)
				}
			}
		}
	}
	return nil
}

func groupNotViable(w world.Worker, d *model.PCIDevice) error {
	w.Log("kvm: -device vfio-pci,host=%s: vfio %s: group %d is not viable", d.Address, d.Address, d.Group)
	w.Log("Please ensure all devices within the iommu_group are bound to their vfio bus driver.")
	return answer.Die("start failed: QEMU exited with code 1")
}

// remembers is what a card of a host remembers.
func remembers(s *world.State, h *world.Host, d *model.PCIDevice) *guest.InfoROM {
	if s.Cards == nil {
		s.Cards = map[string]*guest.InfoROM{}
	}
	key := h.Name + "/" + d.Address
	if s.Cards[key] == nil {
		s.Cards[key] = &guest.InfoROM{}
	}
	return s.Cards[key]
}

func guestPCI(d *model.PCIDevice, slot, function int) guest.PCI {
	hex := func(s string) uint64 { n, _ := strconv.ParseUint(s, 16, 32); return n }
	vendor, device, _ := strings.Cut(d.ID, ":")
	subVendor, subDevice, _ := strings.Cut(d.Subsystem, ":")
	return guest.PCI{
		Address: fmt.Sprintf("0000:%02x:00.%d", slot+1, function), Host: d.Address,
		Vendor: uint16(hex(vendor)), Device: uint16(hex(device)), SubVendor: uint16(hex(subVendor)), SubDevice: uint16(hex(subDevice)),
		Class: uint32(hex(d.Class)), Model: d.Product,
	}
}
