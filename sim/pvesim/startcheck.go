package pvesim

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var versionOfMachine = regexp.MustCompile(`-(\d+)\.(\d+)`)

// checkMachineVersion refuses machines that are newer than QEMU.
func (s *state) checkMachineVersion(v *vm) error {
	kind := s.props("machine", v.conf["machine"])["type"]
	m := versionOfMachine.FindStringSubmatch(kind)
	if m == nil {
		return nil
	}
	major, minor := s.qemuRelease()
	if !strings.Contains(kind, "+pve") {
		kind += "+pve0"
	}
	if want := atoi(m[1])*1000 + atoi(m[2]); want > major*1000+minor {
		return die("Installed QEMU version '%s' is too old to run machine type '%s', please upgrade node '%s'", s.qemu, kind, v.node)
	}
	return nil
}

// checkCommand are the checks that Proxmox makes while it writes QEMU's command line
// (PVE/QemuServer.pm, config_to_command), in its order.
func (w worker) checkCommand(v *vm) error {
	h := w.s.hosts[v.node]
	if err := w.s.checkMachineVersion(v); err != nil {
		return err
	}
	if v.conf["bios"] == "ovmf" && cpu32.MatchString(w.s.props("cpu", v.conf["cpu"])["cputype"]) {
		return die("OVMF (UEFI) BIOS is not supported on 32-bit CPU types")
	}
	for i := range 4 {
		if d := v.conf["serial"+strconv.Itoa(i)]; d != "" && d != "socket" {
			return die("no such serial device")
		}
	}
	for i := range 3 {
		if v.conf["parallel"+strconv.Itoa(i)] != "" {
			return die("no such parallel device")
		}
	}
	if v.cores() > h.CPUs {
		return die("MAX %d vcpus allowed per VM on this node", h.CPUs)
	}
	if err := w.s.checkVGA(v.conf["vga"]); err != nil {
		return err
	}
	if err := w.s.checkMemory(v); err != nil {
		return err
	}
	for i := range 32 {
		if err := w.s.checkMTU(h, i, w.s.props("net0", v.conf["net"+strconv.Itoa(i)])); err != nil {
			return err
		}
	}
	return nil
}

// cpu32 are CPUs of 32 bits (PVE/QemuServer/CPUConfig.pm, get_cpu_bitness).
var cpu32 = regexp.MustCompile(`^(486|athlon|coreduo|kvm32|pentium|pentium2|pentium3|qemu32)$`)

// checkMTU reads that of a bridge, for cards that are told it.
func (s *state) checkMTU(h *host, i int, d map[string]string) error {
	ofBridge := atoi(h.network()[d["bridge"]]["mtu"])
	if ofBridge <= 0 {
		ofBridge = 1500
	}
	if d["model"] != "virtio" || d["bridge"] == "" {
		return nil
	}
	switch mtu := atoi(d["mtu"]); {
	case !slices.Contains(h.Bridges, d["bridge"]):
		return die("bridge '%s' does not exist", d["bridge"])
	case mtu > 1 && mtu < 576:
		return die("netdev net%d: MTU '%d' is smaller than the IP minimum MTU '576'", i, mtu)
	case mtu > ofBridge:
		return die("netdev net%d: MTU '%d' is bigger than the bridge MTU '%d' - adjust the MTU for the network device in the VM configuration, "+
			"while ensuring that the bridge is configured as desired.", i, mtu, ofBridge)
	}
	return nil
}

// maxMemory is what hot-plugged memory can come to, in MiB, as it is with 40 bits of addresses.
const maxMemory = 4 << 20

// checkMemory is config of PVE/QemuServer/Memory.pm.
func (s *state) checkMemory(v *vm) error {
	memory, numa, huge := v.memory()>>20, v.conf["numa"] == "1", v.conf["hugepages"] != ""
	static := memory
	if v.hotplugs("memory") {
		static = 1024
		if v.conf["hugepages"] == "1024" {
			static *= int64(max(1, atoi(v.conf["sockets"])))
		}
		switch {
		case !numa:
			return die("NUMA needs to be enabled for memory hotplug")
		case memory > maxMemory:
			return die("Total memory is bigger than %dMB", maxMemory)
		case slices.ContainsFunc(slices.Sorted(maps.Keys(v.conf)), numaKey.MatchString):
			return die("cannot enable memory hotplugging with custom NUMA topology")
		case memory < static:
			return die("minimum memory must be %dMB", static)
		}
	}
	if huge && !numa {
		return die("numa needs to be enabled to use hugepages at /usr/share/perl5/PVE/QemuServer/Memory.pm line 388.")
	}
	if !numa {
		return nil
	}
	return s.checkNUMA(v, static, huge)
}

// checkNUMA looks at the nodes that a VM's memory and CPUs are spread over.
func (s *state) checkNUMA(v *vm, static int64, huge bool) error {
	nodes, total, custom := s.hosts[v.node].NUMANodes, 0.0, false
	for i := range 8 {
		d := s.props("numa0", v.conf["numa"+strconv.Itoa(i)])
		if v.conf["numa"+strconv.Itoa(i)] == "" {
			continue
		}
		custom = true
		memory, _ := strconv.ParseFloat(d["memory"], 64)
		if memory == 0 {
			return die("missing NUMA node%d memory value", i)
		}
		total += memory
		switch hosts := d["hostnodes"]; {
		case hosts != "":
			first, last, isRange := strings.Cut(hosts, "-")
			if !isRange {
				last = first
			}
			for n := atoi(first); n <= atoi(last); n++ {
				if n >= nodes {
					return die("host NUMA node%d doesn't exist", n)
				}
			}
			if d["policy"] == "" {
				return die("you need to define a policy for hostnode %s", hosts)
			}
		case huge:
			return die("numa hostnodes need to be defined to use hugepages at /usr/share/perl5/PVE/QemuServer/Memory.pm line 430.")
		}
	}
	if custom && int64(total) != static {
		return die("total memory for NUMA nodes must be equal to vm static memory")
	}
	for i := range max(1, atoi(v.conf["sockets"])) {
		if !custom && huge && i >= nodes {
			return die("host NUMA node%d doesn't exist", i)
		}
	}
	return nil
}

// checkStorages wants storages that hold what a machine has on them (PVE/QemuServer.pm,
// check_volume_storage_type), and that are there.
func (w worker) checkStorages(v *vm) error {
	for _, k := range drives(v.conf) {
		file := w.s.props(k, v.conf[k])["file"]
		st, rest := w.s.hosts[v.node].volume(file)
		if st == nil || !strings.Contains(file, ":") {
			continue
		}
		if about, err := st.parseVolume(rest); err == nil && len(st.Content) > 0 && !slices.Contains(st.Content, about.content) {
			return die("storage '%s' does not support content-type '%s'", st.Name, about.content)
		}
		if err := st.ready(); err != nil {
			return err
		}
	}
	return nil
}

// plug is a QEMU that ends over a network card: its bridge is not there, or has no way
// out for a VLAN.
func (w worker) plugged(v *vm, i int) error {
	h, d := w.s.hosts[v.node], w.s.props("net0", v.conf["net"+strconv.Itoa(i)])
	b, status := d["bridge"], 0
	switch {
	case b == "":
	case !slices.Contains(h.Bridges, b):
		w.log("bridge '%s' does not exist", b)
		status = 512
	case d["tag"] != "" && slices.Contains(h.NoPorts, b) && !slices.Contains(h.VLANAware, b):
		w.log("no physical interface on bridge '%s'", b)
		status = 65280
	}
	if status == 0 {
		return nil
	}
	vhost := map[bool]string{true: ",vhost=on"}[d["model"] == "virtio"]
	return w.quits("-netdev type=tap,id=net%d,ifname=tap%di%d,script=/usr/libexec/qemu-server/pve-bridge,downscript=/usr/libexec/qemu-server/pve-bridgedown%s: "+
		"network script /usr/libexec/qemu-server/pve-bridge failed with status %d", i, v.id, i, vhost, status)
}

// quits is a QEMU that says why it does not start.
func (w worker) quits(format string, args ...any) error {
	w.log("kvm: "+format, args...)
	return die("start failed: QEMU exited with code 1")
}

// drivesOpen is QEMU opening its drives.
func (w worker) drivesOpen(v *vm) error {
	for _, k := range drives(v.conf) {
		d := w.s.props(k, v.conf[k])
		switch cache := d["cache"]; {
		case d["aio"] == "native" && (cache == "writeback" || cache == "writethrough" || cache == "unsafe"):
			return w.quits("-blockdev drive-%s: aio=native was specified, but it requires cache.direct=on, which was not specified.", k)
		case d["file"] == "cdrom":
			w.log("WARN: no physical CD-ROM available, ignoring")
			return w.quits("-blockdev drive-%s: The 'host_cdrom' block driver requires a file name", k)
		}
	}
	return nil
}

// pinned wants the CPUs there that a VM is to run on: taskset starts QEMU.
func (w worker) pinned(v *vm) error {
	if v.conf["affinity"] == "" {
		return nil
	}
	for part := range strings.SplitSeq(v.conf["affinity"], ",") {
		first, _, _ := strings.Cut(strings.TrimSpace(part), "-")
		if atoi(first) < w.s.hosts[v.node].CPUs {
			return nil // some are enough
		}
	}
	w.s.pids += 3
	w.log("taskset: failed to set pid %d's affinity: Invalid argument", w.s.pids)
	return die("start failed: QEMU exited with code 1")
}
