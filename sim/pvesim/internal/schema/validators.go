package schema

import (
	"fmt"
	"slices"
	"strings"
)

// validators are checks of whole property strings, by the name of their format.
// They return what is wrong.
var validators = map[string]func(in map[string]string) string{
	"pve-vm-cpu-conf": checkCPU,
	"prune-backups":   checkPrune,
}

// checkPrune is validate_prune_backups of PVE/Storage/Plugin.pm.
func checkPrune(in map[string]string) string {
	for k, v := range in {
		if in["keep-all"] == "1" && k != "keep-all" && Atoi(v) > 0 {
			return "keep-all cannot be set together with other options.\n"
		}
	}
	return ""
}

// cpuFlags are those that a VM's configuration may name (PVE/QemuServer/CPUFlags.pm).
var cpuFlags = []string{"aes", "amd-no-ssb", "amd-ssbd", "hv-evmcs", "hv-tlbflush", "ibpb", "md-clear", "nested-virt", "pcid", "pdpe1gb",
	"spec-ctrl", "ssbd", "virt-ssbd"}

// checkCPU is validate_vm_cpu_conf of PVE/QemuServer/CPUConfig.pm.
func checkCPU(in map[string]string) string {
	kind := in["cputype"]
	known := Load().Formats["pve-vm-cpu-conf"]["reported-model"].Enum
	switch custom, isCustom := strings.CutPrefix(kind, "custom-"); {
	case kind == "":
		return "CPU is missing cputype\n"
	case isCustom:
		return fmt.Sprintf("Custom cputype '%s' not found\n", custom)
	case !strings.HasPrefix(kind, "x86-64-v") && !slices.Contains(known, kind):
		return fmt.Sprintf("Built-in cputype '%s' is not defined (missing 'custom-' prefix?)\n", kind)
	case in["reported-model"] != "":
		return "Property 'reported-model' not allowed in VM-specific CPU config.\n"
	}
	for flag := range strings.SplitSeq(in["flags"], ";") {
		if flag != "" && !slices.Contains(cpuFlags, strings.TrimLeft(flag, "+-")) {
			return "VM-specific CPU flags must be a subset of: " + strings.Join(cpuFlags, ", ") + "\n"
		}
	}
	return ""
}
