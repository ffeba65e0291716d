package release

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// packageVersions are the packages of a release of Proxmox VE.
type packageVersions struct{ qemu, QEMUServer, Storage string }

// PackagesOf are those of the day on which a release was announced: the last entries then of
// debian/changelog in Proxmox's repositories pve-qemu, qemu-server and pve-storage. 9.2's are
// those beside pve-manager 9.2.11.
func PackagesOf(s *world.State) packageVersions {
	switch Number(s) {
	case "8.0": // 2023-06-22
		return packageVersions{"8.0.2-3", "8.0.5", "8.0.1"}
	case "8.1": // 2023-11-23
		return packageVersions{"8.1.2-4", "8.0.10", "8.0.5"}
	case "8.2": // 2024-04-24
		return packageVersions{"8.1.5-5", "8.2.1", "8.2.1"}
	case "8.3": // 2024-11-21
		return packageVersions{"9.0.2-4", "8.3.0", "8.2.9"}
	case "9.0": // 2025-08-05
		return packageVersions{"10.0.2-4", "9.0.16", "9.0.13"}
	case "9.1": // 2025-11-19
		return packageVersions{"10.1.2-4", "9.1.0", "9.0.18"}
	}
	if strings.HasPrefix(s.Version, "8.") { // 8.4, 2025-04-09
		return packageVersions{"9.2.0-5", "8.3.12", "8.3.6"}
	}
	return packageVersions{"11.0.0-2", "9.2.6", "9.1.7"}
}

// UsualQEMU is the version of QEMU that came with a release, and so what machines of a type
// without a version are made by.
func UsualQEMU(s *world.State) string {
	version, _, _ := strings.Cut(PackagesOf(s).qemu, "-")
	return version
}

// QEMUPackage is the version of pve-qemu-kvm.
func QEMUPackage(s *world.State) string {
	if usual := PackagesOf(s).qemu; strings.HasPrefix(usual, s.QEMU+"-") {
		return usual
	}
	return s.QEMU + "-1"
}

// pveMachine is a version of machines that Proxmox has changed, as PVE/QemuServer/Machine.pm
// has it, and the release whose qemu-server had it first.
type pveMachine struct{ of, revision, changes, since string }

// pveMachines are those of the simulated release, oldest first. Before 8.4 they were not listed.
func pveMachines(s *world.State) []pveMachine {
	all := []pveMachine{
		{"4.1", "+pve1", "Introduction of pveX versioning, no changes.", "8.4"},
		{"4.1", "+pve2", "Increases the number of SCSI drives supported.", "8.4"},
		{"9.2", "+pve1", "Disables S3/S4 power states by default.", "8.4"},
		{"10.0", "+pve1", "Set host_mtu vNIC option even with default value for migration compat.", "9.1"},
		{"11.0", "+pve1", "Use host_tunnel=off by default for VirtIO NICs.", "9.2"},
		{"11.0", "+pve2", "Enable hv_emcs for Windows 11/2022/2025 to mitigate issues with VBS.", "9.2"},
	}
	return slices.DeleteFunc(all, func(m pveMachine) bool {
		major, minor, _ := strings.Cut(m.since, ".")
		return Before(s, schema.Atoi(major), schema.Atoi(minor))
	})
}

// MachineVersion is that of the newest machine that QEMU has: 10.0+pve1.
func MachineVersion(s *world.State) string {
	major, minor := QEMURelease(s)
	v := strconv.Itoa(major) + "." + strconv.Itoa(minor)
	for _, m := range slices.Backward(pveMachines(s)) {
		if m.of == v {
			return v + m.revision
		}
	}
	return v
}

// Machines are the machines that QEMU has, newest first, with those that Proxmox has changed
// before what they were changed from (PVE/API2/Qemu/Machine.pm).
func Machines(c *world.Call) (any, error) {
	out := []any{}
	kinds := []string{"i440fx", "q35"}
	for _, v := range machineVersions(c.State) {
		for _, m := range slices.Backward(pveMachines(c.State)) {
			for _, kind := range kinds {
				if m.of == v.String() && v.has(kind, c.State.QEMU) {
					out = append(out, map[string]any{"id": "pc-" + kind + "-" + m.of + m.revision, "type": kind, "version": m.of + m.revision, "changes": m.changes})
				}
			}
		}
		for _, kind := range kinds {
			if v.has(kind, c.State.QEMU) {
				out = append(out, map[string]any{"id": "pc-" + kind + "-" + v.String(), "type": kind, "version": v.String()})
			}
		}
	}
	return out, nil
}

// machineRelease is a release of QEMU, each of which has machines of its own.
type machineRelease struct{ major, minor int }

func (v machineRelease) String() string { return strconv.Itoa(v.major) + "." + strconv.Itoa(v.minor) }

// machineVersions are the releases of QEMU up to the simulated one, newest first: 2.0 to
// 2.12, 3.0, 3.1, and three a year since 4.0.
func machineVersions(s *world.State) []machineRelease {
	newest, minor := QEMURelease(s)
	var out []machineRelease
	for major := newest; major >= 2; major-- {
		switch {
		case major == 2:
			minor = 12
		case major == 3:
			minor = 1
		case major < newest:
			minor = 2
		}
		for ; minor >= 0; minor-- {
			out = append(out, machineRelease{major, minor})
		}
	}
	return out
}

// has reports whether a QEMU still has a release's machines. From 10.1 on those of six years
// ago are gone (QEMU's docs/about/deprecated.rst; MACHINE_VER_DELETION_MAJOR of pve-qemu's
// patches); 9.1 had removed i440fx up to 2.3, and of q35 there has long been none before 2.4.
func (v machineRelease) has(kind, qemu string) bool {
	parts := strings.SplitN(qemu, ".", 3)
	now, n := schema.Atoi(parts[0])*100+schema.Atoi(parts[1]), v.major*100+v.minor
	switch {
	case now >= 1001:
		return n > now-600
	case now >= 901 || kind == "q35":
		return n >= 204
	}
	return true
}

// QEMURelease is the version of QEMU without its last part: 10.1.
func QEMURelease(s *world.State) (major, minor int) {
	parts := strings.SplitN(s.QEMU, ".", 3)
	return schema.Atoi(parts[0]), schema.Atoi(parts[1])
}

// Number is the version's first two numbers.
func Number(s *world.State) string {
	parts := strings.SplitN(s.Version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Before reports whether the simulated Proxmox VE is older than a release.
func Before(s *world.State, major, minor int) bool {
	first, rest, _ := strings.Cut(s.Version, ".")
	second, _, _ := strings.Cut(rest, ".")
	have, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	then, err := strconv.Atoi(second)
	return have < major || have == major && err == nil && then < minor
}
