package harvester

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// Diff returns how vm differs from s. It is pure: it sends no request. Devices are compared by their resources, of
// which others than those asked for are left alone: Harvester adds those of the same IOMMU group.
func (s VMSpec) Diff(vm *VM) converge.Diff {
	if vm == nil {
		return converge.Missing(s.String())
	}
	if vm.Removing {
		return converge.Diff{{Have: "being removed", Want: s.String(), Effect: converge.Create}}
	}
	out := s.hardware(vm)
	if s.Description != "" {
		out = append(out, converge.Compare("description", vm.Description, s.Description, converge.Update)...)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		out = append(out, converge.Compare("tag/"+k, vm.Tags[k], s.Tags[k], converge.Update)...)
	}
	if vm.Running && vm.Restart != "" && out.Effect() < converge.Restart {
		out = append(out, converge.Field{Path: "restart", Have: "before a change", Want: "after it", Effect: converge.Restart, Note: vm.Restart})
	}
	if s.Running && (vm.Halted || vm.Ended) {
		out = append(out, converge.Field{Path: "power", Have: "stopped", Want: "running", Effect: converge.Create})
	}
	return out
}

// hardware compares what a machine is made of.
func (s VMSpec) hardware(vm *VM) converge.Diff {
	effect := converge.Update
	if vm.Exists {
		effect = converge.Restart
	}
	out := slices.Concat(
		converge.Compare("cores", vm.Cores, s.Cores, effect),
		converge.Compare("memory", vm.Memory, s.Memory, effect),
	)
	if s.CPUModel != "" {
		out = append(out, converge.Compare("cpu", vm.CPUModel, s.CPUModel, effect)...)
	}
	out = append(out, converge.Compare("firmware", firmware(vm.EFI, vm.SecureBoot), firmware(s.EFI, s.SecureBoot), converge.Replace)...)
	if s.TPM {
		out = append(out, converge.Compare("tpm", vm.TPM, s.TPM, effect)...)
	}
	if have := shortName(vm.image); have != shortName(s.Image) || strings.Contains(s.Image, "/") && vm.image != s.Image {
		out = append(out, converge.Field{Path: "image", Have: vm.image, Want: s.Image, Effect: converge.Replace})
	}
	for i := range max(len(s.NICs), len(vm.NICs)) {
		out = append(out, converge.Compare(fmt.Sprintf("net%d", i), nicText(vm.NICs, i, vm.Namespace), nicText(s.NICs, i, vm.Namespace), effect)...)
	}
	have, want := countByResource(vm.Devices), countByResource(s.Devices)
	for _, r := range slices.Sorted(maps.Keys(want)) {
		if have[r] < want[r] {
			out = append(out, converge.Field{Path: "device/" + r, Have: fmt.Sprint(have[r]), Want: fmt.Sprint(want[r]), Effect: effect})
		}
	}
	for _, name := range vm.wishes() {
		if !slices.ContainsFunc(s.Devices, func(d HostDevice) bool { return d.Name == name }) {
			out = append(out, converge.Field{Path: "device/" + name, Have: "there", Effect: effect})
		}
	}
	return append(out, s.disks(vm, effect)...)
}

// shortName is a name without its namespace.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func firmware(efi, secure bool) string {
	switch {
	case secure:
		return "EFI with secure boot"
	case efi:
		return "EFI"
	}
	return "BIOS"
}

func nicText(all []NIC, i int, namespace string) string {
	if i >= len(all) {
		return ""
	}
	network := all[i].Network
	if !strings.Contains(network, "/") {
		network = namespace + "/" + network
	}
	return network + " " + strings.ToLower(all[i].MAC)
}

// disks compares the disks. They grow, and are added; one that is no longer asked for is left alone.
func (s VMSpec) disks(vm *VM, effect converge.Effect) converge.Diff {
	var out converge.Diff
	for _, d := range s.Disks {
		path := "disk/" + d.Name
		i := slices.IndexFunc(vm.Disks, func(h Disk) bool { return h.Name == d.Name })
		if i < 0 {
			out = append(out, converge.Field{Path: path, Want: d.Size.String(), Effect: effect})
			continue
		}
		have := vm.Disks[i]
		switch {
		case have.Size < d.Size:
			out = append(out, converge.Compare(path+"/size", have.Size, d.Size, converge.Update)...)
		case have.Size > d.Size:
			out = append(out, converge.Field{Path: path + "/size", Have: have.Size.String(), Want: d.Size.String(), Effect: converge.Replace,
				Note: "disks never shrink"})
		}
		out = append(out, converge.Compare(path+"/serial", have.Serial, d.Serial, effect)...)
		if d.StorageClass != "" && have.StorageClass != d.StorageClass && d.Name != s.Disks[0].Name {
			out = append(out, converge.Field{Path: path + "/storage class", Have: have.StorageClass, Want: d.StorageClass, Effect: converge.Replace})
		}
	}
	return out
}
