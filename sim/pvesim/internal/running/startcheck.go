package running

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

var versionOfMachine = regexp.MustCompile(`-(\d+)\.(\d+)`)

// checkMachineVersion refuses machines that are newer than QEMU.
func checkMachineVersion(s *world.State, v *world.VM) error {
	kind := s.Props("machine", v.Conf["machine"])["type"]
	m := versionOfMachine.FindStringSubmatch(kind)
	if m == nil {
		return nil
	}
	major, minor := release.QEMURelease(s)
	if !strings.Contains(kind, "+pve") {
		kind += "+pve0"
	}
	if want := schema.Atoi(m[1])*1000 + schema.Atoi(m[2]); want > major*1000+minor {
		return answer.Die("Installed QEMU version '%s' is too old to run machine type '%s', please upgrade node '%s'", s.QEMU, kind, v.Node)
	}
	return nil
}

// checkCommand are the checks that Proxmox makes while it writes QEMU's command line
// (PVE/QemuServer.pm, config_to_command), in its order.
func checkCommand(w world.Worker, v *world.VM) error {
	h := w.State.Hosts[v.Node]
	if err := checkMachineVersion(w.State, v); err != nil {
		return err
	}
	if v.Conf["bios"] == "ovmf" && cpu32.MatchString(w.State.Props("cpu", v.Conf["cpu"])["cputype"]) {
		return answer.Die("OVMF (UEFI) BIOS is not supported on 32-bit CPU types")
	}
	for i := range 4 {
		if d := v.Conf["serial"+strconv.Itoa(i)]; d != "" && d != "socket" {
			return answer.Die("no such serial device")
		}
	}
	for i := range 3 {
		if v.Conf["parallel"+strconv.Itoa(i)] != "" {
			return answer.Die("no such parallel device")
		}
	}
	if v.Cores() > h.CPUs {
		return answer.Die("MAX %d vcpus allowed per VM on this node", h.CPUs)
	}
	if err := config.CheckVGA(w.State, v.Conf["vga"]); err != nil {
		return err
	}
	if err := checkMemory(w.State, v); err != nil {
		return err
	}
	for i := range 32 {
		if err := checkMTU(w.State, h, i, w.State.Props("net0", v.Conf["net"+strconv.Itoa(i)])); err != nil {
			return err
		}
	}
	return nil
}

// cpu32 are CPUs of 32 bits (PVE/QemuServer/CPUConfig.pm, get_cpu_bitness).
var cpu32 = regexp.MustCompile(`^(486|athlon|coreduo|kvm32|pentium|pentium2|pentium3|qemu32)$`)

// checkMTU reads that of a bridge, for cards that are told it.
func checkMTU(s *world.State, h *world.Host, i int, d map[string]string) error {
	ofBridge, there := nodes.BridgeMTU(s, h, d["bridge"])
	if d["model"] != "virtio" || d["bridge"] == "" {
		return nil
	}
	switch mtu := schema.Atoi(d["mtu"]); {
	case !there:
		return answer.Die("bridge '%s' does not exist", d["bridge"])
	case mtu > 1 && mtu < 576:
		return answer.Die("netdev net%d: MTU '%d' is smaller than the IP minimum MTU '576'", i, mtu)
	case mtu > ofBridge:
		return answer.Die("netdev net%d: MTU '%d' is bigger than the bridge MTU '%d' - adjust the MTU for the network device in the VM configuration, "+
			"while ensuring that the bridge is configured as desired.", i, mtu, ofBridge)
	}
	return nil
}

// maxMemory is what hot-plugged memory can come to, in MiB, as it is with 40 bits of addresses.
const maxMemory = 4 << 20

// checkMemory is config of PVE/QemuServer/Memory.pm.
func checkMemory(s *world.State, v *world.VM) error {
	memory, numa, huge := v.Memory()>>20, v.Conf["numa"] == "1", v.Conf["hugepages"] != ""
	static := memory
	if config.Hotplugs(v, "memory") {
		static = 1024
		if v.Conf["hugepages"] == "1024" {
			static *= int64(max(1, schema.Atoi(v.Conf["sockets"])))
		}
		switch {
		case !numa:
			return answer.Die("NUMA needs to be enabled for memory hotplug")
		case memory > maxMemory:
			return answer.Die("Total memory is bigger than %dMB", maxMemory)
		case slices.ContainsFunc(slices.Sorted(maps.Keys(v.Conf)), config.NUMAKey.MatchString):
			return answer.Die("cannot enable memory hotplugging with custom NUMA topology")
		case memory < static:
			return answer.Die("minimum memory must be %dMB", static)
		}
	}
	if huge && !numa {
		return answer.Die("numa needs to be enabled to use hugepages at /usr/share/perl5/PVE/QemuServer/Memory.pm line 388.")
	}
	if !numa {
		return nil
	}
	return checkNUMA(s, v, static, huge)
}

// checkNUMA looks at the nodes that a VM's memory and CPUs are spread over.
func checkNUMA(s *world.State, v *world.VM, static int64, huge bool) error {
	nodes, total, custom := s.Hosts[v.Node].NUMANodes, 0.0, false
	for i := range 8 {
		d := s.Props("numa0", v.Conf["numa"+strconv.Itoa(i)])
		if v.Conf["numa"+strconv.Itoa(i)] == "" {
			continue
		}
		custom = true
		memory, _ := strconv.ParseFloat(d["memory"], 64)
		if memory == 0 {
			return answer.Die("missing NUMA node%d memory value", i)
		}
		total += memory
		switch hosts := d["hostnodes"]; {
		case hosts != "":
			first, last, isRange := strings.Cut(hosts, "-")
			if !isRange {
				last = first
			}
			for n := schema.Atoi(first); n <= schema.Atoi(last); n++ {
				if n >= nodes {
					return answer.Die("host NUMA node%d doesn't exist", n)
				}
			}
			if d["policy"] == "" {
				return answer.Die("you need to define a policy for hostnode %s", hosts)
			}
		case huge:
			return answer.Die("numa hostnodes need to be defined to use hugepages at /usr/share/perl5/PVE/QemuServer/Memory.pm line 430.")
		}
	}
	if custom && int64(total) != static {
		return answer.Die("total memory for NUMA nodes must be equal to vm static memory")
	}
	for i := range max(1, schema.Atoi(v.Conf["sockets"])) {
		if !custom && huge && i >= nodes {
			return answer.Die("host NUMA node%d doesn't exist", i)
		}
	}
	return nil
}

// checkStorages wants storages that hold what a machine has on them (PVE/QemuServer.pm,
// check_volume_storage_type), and that are there.
func checkStorages(w world.Worker, v *world.VM) error {
	for _, k := range world.Drives(v.Conf) {
		file := w.State.Props(k, v.Conf[k])["file"]
		st, rest := w.State.Hosts[v.Node].Volume(file)
		if st == nil || !strings.Contains(file, ":") {
			continue
		}
		if about, err := st.ParseVolume(rest); err == nil && len(st.Content) > 0 && !slices.Contains(st.Content, about.Content) {
			return answer.Die("storage '%s' does not support content-type '%s'", st.Name, about.Content)
		}
		if err := st.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// checkNetworkCard refuses to start a VM over a network card: its bridge is not there, or has no way
// out for a VLAN.
func checkNetworkCard(w world.Worker, v *world.VM, i int) error {
	h, d := w.State.Hosts[v.Node], w.State.Props("net0", v.Conf["net"+strconv.Itoa(i)])
	if d["bridge"] == "" {
		return nil
	}
	err := nodes.Plug(w.State, h, d["bridge"], d["tag"])
	if err == nil {
		return nil
	}
	w.Log("%v", err)
	status := 65280
	if _, there := nodes.BridgeMTU(w.State, h, d["bridge"]); !there {
		status = 512
	}
	vhost := map[bool]string{true: ",vhost=on"}[d["model"] == "virtio"]
	return quits(w, "-netdev type=tap,id=net%d,ifname=tap%di%d,script=/usr/libexec/qemu-server/pve-bridge,downscript=/usr/libexec/qemu-server/pve-bridgedown%s: "+
		"network script /usr/libexec/qemu-server/pve-bridge failed with status %d", i, v.ID, i, vhost, status)
}

// quits is a QEMU that says why it does not start.
func quits(w world.Worker, format string, args ...any) error {
	w.Log("kvm: "+format, args...)
	return answer.Die("start failed: QEMU exited with code 1")
}

// drivesOpen is QEMU opening its drives.
func drivesOpen(w world.Worker, v *world.VM) error {
	for _, k := range world.Drives(v.Conf) {
		d := w.State.Props(k, v.Conf[k])
		switch cache := d["cache"]; {
		case d["aio"] == "native" && (cache == "writeback" || cache == "writethrough" || cache == "unsafe"):
			return quits(w, "-blockdev drive-%s: aio=native was specified, but it requires cache.direct=on, which was not specified.", k)
		case d["file"] == "cdrom":
			w.Log("WARN: no physical CD-ROM available, ignoring")
			return quits(w, "-blockdev drive-%s: The 'host_cdrom' block driver requires a file name", k)
		}
	}
	return nil
}

// checkAffinity wants the CPUs there that a VM is to run on: taskset starts QEMU.
func checkAffinity(w world.Worker, v *world.VM) error {
	if v.Conf["affinity"] == "" {
		return nil
	}
	for part := range strings.SplitSeq(v.Conf["affinity"], ",") {
		first, _, _ := strings.Cut(strings.TrimSpace(part), "-")
		if schema.Atoi(first) < w.State.Hosts[v.Node].CPUs {
			return nil // some are enough
		}
	}
	w.State.PIDs += 3
	w.Log("taskset: failed to set pid %d's affinity: Invalid argument", w.State.PIDs)
	return answer.Die("start failed: QEMU exited with code 1")
}
