package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// countNamed counts the VMs with the name of vm. Templates on other hosts do not count, since
// every host has its own.
func countNamed(all []proxmox.Summary, vm proxmox.Summary) int {
	n := 0
	for _, other := range all {
		if other.Name == vm.Name && (other.Host == vm.Host || !vm.Template) {
			n++
		}
	}
	return n
}

// checkDuplicates returns an error if VMs of the cluster have the same name, as after two runs at
// once. A copy by another owner does not count.
func checkDuplicates(all []proxmox.Summary) error {
	var names []string
	which := map[string][]string{}
	for _, vm := range all {
		if countNamed(all, vm) == 1 {
			continue
		}
		state := "off"
		switch {
		case vm.Template:
			state = "a template"
		case vm.Running:
			state = "runs"
		}
		which[vm.Name] = append(which[vm.Name], fmt.Sprintf("VM %d on %s (%s)", vm.VMID, vm.Host, state))
		names = append(names, vm.Name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	text := "machines of this cluster exist twice, and which of them are in use is unknown:"
	for _, name := range slices.Compact(names) {
		text += fmt.Sprintf("\n  %s: %s", name, strings.Join(which[name], ", "))
	}
	return errors.New(text + "\n" +
		"  check what is on them, and remove the duplicates, as root on their host: qm stop VMID; qm destroy VMID --purge\n" +
		"  or remove all of them with homelab cluster:down, which lists them and asks first, and create the cluster again")
}
