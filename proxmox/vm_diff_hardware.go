package proxmox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// diffProcessor compares cores, memory and their placement on the host.
func (s VMSpec) diffProcessor(d *differ, vm *VM) {
	d.set(theCores, "cores", vm.Cores, s.Cores, "cores", fmt.Sprint(s.Cores))
	if vm.config["sockets"] != "" && vm.config["sockets"] != "1" {
		d.set(theSockets, "sockets", vm.config["sockets"], "1", "sockets", "1")
	}
	d.set(theMemory, "memory", vm.Memory, s.Memory, "memory", fmt.Sprint(wire.RoundMiB(s.Memory)))
	have, want := vm.CPUType, s.cpuType()
	if typed := cpuLine(want); strings.Contains(typed, ",") { // options that others set stay if the spec has none
		have, want = cpuLine(vm.config["cpu"]), typed
	}
	d.set(theCPU, "cpu", orNone(have), want, "cpu", s.cpuType())
	d.set(theNUMA, "numa", vm.NUMA, s.NUMA, "numa", wire.ZeroOne(s.NUMA))
	for i, want := range s.NUMANodes {
		key := fmt.Sprintf("numa%d", i)
		d.set(theNUMANodes, key, vm.NUMANodes[key].line(), want.line(), key, want.line())
	}
	for _, key := range slices.Sorted(maps.Keys(vm.NUMANodes)) {
		if wire.Number(strings.TrimPrefix(key, "numa"), 0) >= len(s.NUMANodes) {
			d.set(theNUMANodes, key, vm.NUMANodes[key].line(), "", key, "")
		}
	}
	d.rootOnly(theHugepages, "hugepages", vm.Hugepages, s.Hugepages)
	d.rootOnly(theAffinity, "affinity", vm.Affinity, s.Affinity)
	if s.CPUUnits != 0 {
		d.set(theCPUShare, "cpuunits", cmp.Or(vm.CPUUnits, 100), s.CPUUnits, "cpuunits", fmt.Sprint(s.CPUUnits))
	}
	if s.CPULimit != 0 {
		d.set(theCPUShare, "cpulimit", vm.CPULimit, s.CPULimit, "cpulimit", fmt.Sprint(s.CPULimit))
	}
}

// cpuLine is a CPU type with its options in one order, whichever way they are written:
// host,hidden=1 is hidden=1,cputype=host.
func cpuLine(text string) string {
	p := wire.ParseLenient(text)
	options := []string{p.GetFirst("cputype", "")}
	for _, o := range p {
		if o.Key != "" && o.Key != "cputype" {
			options = append(options, o.Key+"="+o.Value)
		}
	}
	slices.Sort(options[1:])
	return strings.Join(options, ",")
}

// None removes an option that only root@pam may set. If a spec leaves such an option empty, the
// option stays, because a token could not remove it.
const None = "none"

func (d *differ) rootOnly(thing, key, have, want string) {
	switch want {
	case "":
	case None:
		d.set(thing, key, have, "", key, "")
	default:
		d.set(thing, key, have, want, key, want)
	}
}

// rootKey reports whether only root@pam with its password may set a key
// (check_vm_modify_config_perm in qemu-server knows no privilege for it).
func rootKey(key string) bool { return key == "hugepages" || key == "affinity" }

// diffFirmware checks the settings that a GPU and a cloud image's kernel need.
func (s VMSpec) diffFirmware(d *differ, vm *VM) {
	storage := s.Storage
	if storage == "" && len(vm.Disks) > 0 {
		storage = vm.Disks[0].Storage
	}
	if slices.ContainsFunc(s.passthrough(), func(g HostPCI) bool { return g.PCIe }) {
		// Only ovmf on q35 has the window for a large BAR.
		if !strings.Contains(vm.Machine, "q35") {
			d.set(theMachine, "machine", vm.Machine, "q35", "machine", "q35")
		}
		if len(s.GPUs) > 0 && vm.BIOS != ovmf {
			have := vm.BIOS
			if have == "" {
				have = "seabios"
			}
			d.replace(theFirmware, "firmware", have, ovmf)
		}
	}
	if vm.BIOS == ovmf {
		keys := s.SecureBoot != nil && *s.SecureBoot
		switch {
		case !vm.EFIDisk:
			d.set(theEFIDisk, "efidisk0", "", "on "+storage, "efidisk0", efiLine(storage, keys))
		case s.SecureBoot != nil && *s.SecureBoot != vm.SecureBoot:
			d.replace(theSecureBoot, "secure boot", onOrOff(vm.SecureBoot), onOrOff(*s.SecureBoot))
		}
	}
	if s.TPM && !vm.TPM {
		d.set(theTPM, "tpmstate0", "", "v2.0 on "+storage, "tpmstate0", storage+":1,version=v2.0")
	}
	if !vm.SerialConsole {
		d.set(theSerial, "serial0", "", "socket", "serial0", "socket")
	}
}

// ovmf is the firmware that a GPU needs.
const ovmf = "ovmf"

// efiLine is the config line of a new disk for the firmware's variables.
func efiLine(storage string, keys bool) string {
	return fmt.Sprintf("%s:0,efitype=4m,pre-enrolled-keys=%s", storage, wire.ZeroOne(keys))
}

func onOrOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// NUMANode is a NUMA node of a VM.
type NUMANode struct {
	CPUs      string // of the VM: 0-7, or 0-3;8-11
	Memory    Size   // the sum over all nodes must be the VM's memory
	HostNodes string // of the host: 0, or 0-1; empty: anywhere
	Policy    string // bind, preferred or interleave; for HostNodes
}

// line returns the config line of the node, or "" if there is none.
func (n NUMANode) line() string {
	if n == (NUMANode{}) {
		return ""
	}
	return wire.Properties{}.With("cpus", n.CPUs).With("hostnodes", n.HostNodes).With("memory",
		wire.Positive(int(wire.RoundMiB(n.Memory)))).With("policy", n.Policy).String()
}

func parseNUMANode(p wire.Properties) NUMANode {
	return NUMANode{CPUs: p.Get("cpus"), HostNodes: p.Get("hostnodes"), Policy: p.Get("policy"), Memory: Size(wire.Number(p.Get("memory"), 0)) * MiB}
}
