package qemu

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// props reads an option of a VM that is a property string; the value without a key is
// under "".
func props(value string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(value, ",") {
		key, val, ok := strings.Cut(part, "=")
		if !ok {
			key, val = "", part
		}
		out[key] = val
	}
	return out
}

// shape is how a VM is to be shown to QEMU.
type shape struct {
	pvesim.Board
	files  map[string]string // of the disks, by key
	seed   string            // file of the disc in the CD drive, empty for none
	serial string            // file that takes what the guest says on its console
	sent   string            // file that takes the beginnings of what the guest sends
}

// q35 is the one machine, i440fx the other.
func (s shape) q35() bool { return strings.Contains(s.Config["machine"], "q35") }

// atLeast compares the version of the machine, which is that of the host's QEMU where the
// machine type names none. This machine's own QEMU may be older than either.
func (s shape) atLeast(major int) bool {
	version := s.QEMU
	for part := range strings.SplitSeq(props(s.Config["machine"])[""]+"-"+props(s.Config["machine"])["type"], "-") {
		if part != "" && part[0] >= '0' && part[0] <= '9' {
			version = part
		}
	}
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	return err == nil && n >= major
}

// check says what of a VM cannot be real.
func (s shape) check() error {
	if len(s.PCI) > 0 {
		return fmt.Errorf("%s is passed through, and no real guest can have a simulated card", s.PCI[0].Host)
	}
	for _, d := range s.Drives {
		if !strings.HasPrefix(d.Key, "scsi") && !strings.HasPrefix(d.Key, "virtio") {
			return fmt.Errorf("the disk %s: real guests have scsi and virtio disks only", d.Key)
		}
		if hw := s.Config["scsihw"]; strings.HasPrefix(d.Key, "scsi") && hw != single && hw != "virtio-scsi-pci" {
			return fmt.Errorf("scsihw %q: real guests have virtio-scsi-single and virtio-scsi-pci only", hw)
		}
	}
	return nil
}

// single is a controller for each disk.
const single = "virtio-scsi-single"

// args are QEMU's. The order is qemu-server's, as are ids and addresses.
func (s shape) args(o Options) []string {
	machine := "pc"
	if s.q35() {
		machine = "q35"
	}
	// One processor: Linux patches its own code while it boots, and a second emulated one
	// runs into an instruction that is half written (an oops of int3 in sched_clock_cpu).
	accel, kind, cpus := "tcg", cpu, 1
	if o.KVM {
		accel, kind, cpus = "kvm", "host", min(max(1, s.CPUs), runtime.NumCPU())
	}
	args := []string{
		"-name", cmp.Or(s.Config["name"], fmt.Sprintf("vm%d", s.VMID)), "-no-user-config", "-nodefaults", "-display", "none",
		"-machine", machine + ",hpet=off", "-accel", accel, "-cpu", kind,
		"-smp", strconv.Itoa(cpus), "-m", strconv.FormatInt(s.Memory>>20, 10),
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
		"-kernel", o.Image.Kernel, "-initrd", o.Image.Initrd,
		"-append", "root=LABEL=cloudimg-rootfs ro console=ttyS0 quiet " + boot,
	}
	if id := props(s.Config["smbios1"])["uuid"]; id != "" {
		args = append(args, "-smbios", "type=1,uuid="+id)
	}
	if id := s.Config["vmgenid"]; id != "" {
		args = append(args, "-device", "vmgenid,guid="+id)
	}
	for _, d := range s.bridges() {
		args = append(args, "-device", d)
	}
	args = append(args, "-chardev", "file,id=serial0,path="+s.serial, "-device", "isa-serial,chardev=serial0")
	if strings.HasPrefix(s.Config["agent"], "1") || props(s.Config["agent"])["enabled"] == "1" {
		args = append(args, "-chardev", "socket,id=qga0,fd=4", "-device", "virtio-serial,id=qga0,bus=pci.0,addr=0x8",
			"-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0,id=agent") // no news of a port without an id
	}
	if s.Config["balloon"] != "0" {
		args = append(args, "-device", "virtio-balloon-pci,id=balloon0,bus=pci.0,addr=0x3,free-page-reporting=on")
	}
	args = append(args, s.cdrom()...)
	for i, d := range s.Drives {
		if c := s.controller(d.Key); c != "" && !slices.Contains(args, c) {
			args = append(args, "-device", c)
		}
		args = append(args, "-blockdev", s.blockdev(d.Key), "-device", s.disk(d, i == 0))
	}
	return append(args, s.network(o)...)
}

// cpu is all that QEMU emulates, without what it emulates slowly.
const cpu = "max,erms=off,la57=off,smap=off,smep=off,pku=off,svm=off"

// boot is what makes the kernel quicker in emulation, and surer on a machine that has
// much else to do: there the timer may be late for Linux's check of it, which panics.
// Programs that lie at the same addresses are translated once, not at each start, which
// then takes a sixth of the time.
const boot = "no_timer_check nokaslr norandmaps no5lvl lsm=capability mitigations=off nowatchdog audit=0"

// bridges are what q35 and the many-controller layout plug devices into (pve-q35-4.0.cfg).
func (s shape) bridges() []string {
	if !s.q35() {
		return []string{"pci-bridge,id=pci.1,chassis_nr=1,bus=pci.0,addr=0x1e", "pci-bridge,id=pci.2,chassis_nr=2,bus=pci.0,addr=0x1f",
			"pci-bridge,id=pci.3,chassis_nr=3,bus=pci.0,addr=0x5"}
	}
	out := []string{"i82801b11-bridge,id=pcidmi,bus=pcie.0,addr=1e.0"}
	for i := range 4 {
		out = append(out, fmt.Sprintf("pci-bridge,id=pci.%d,bus=pcidmi,addr=%d.0,chassis_nr=%d", i, i+1, i+1))
	}
	return out
}

// cdrom is the drive that the seed is in.
func (s shape) cdrom() []string {
	for _, key := range []string{"ide0", "ide1", "ide2", "ide3"} {
		if !strings.Contains(s.Config[key], "media=cdrom") {
			continue
		}
		n := int(key[3] - '0')
		bus, unit := n/2, n%2
		if s.q35() { // its buses have one unit each
			bus, unit = bus+2*unit, 0
		}
		device := fmt.Sprintf("ide-cd,bus=ide.%d,unit=%d,id=%s", bus, unit, key)
		if s.seed == "" {
			return []string{"-device", device}
		}
		disc := `{"driver":"raw","node-name":"drive-` + key + `","read-only":true,"file":{"driver":"file","filename":"` + s.seed + `"}}`
		return []string{"-blockdev", disc, "-device", device + ",drive=drive-" + key}
	}
	return nil
}

// number is that of a drive's key.
func number(key string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(key, "abcdefghijklmnopqrstuvwxyz"))
	return n
}

// controller is what a disk is plugged into, empty where that is the bus.
func (s shape) controller(key string) string {
	n := number(key)
	switch {
	case !strings.HasPrefix(key, "scsi"):
		return ""
	case s.Config["scsihw"] == single:
		return fmt.Sprintf("virtio-scsi-pci,id=virtioscsi%d,bus=pci.3,addr=%#x", n, n+1)
	}
	return "virtio-scsi-pci,id=scsihw0,bus=pci.0,addr=0x5"
}

// blockdev is the disk's file. Nothing waits until it is on this machine's disk: it lives
// no longer than a test.
func (s shape) blockdev(key string) string {
	b, _ := json.Marshal(map[string]any{ // strings and flags are always written
		"driver": "qcow2", "node-name": "drive-" + key, "discard": "unmap", "detect-zeroes": "unmap", "cache": map[string]any{"no-flush": true},
		"file": map[string]any{"driver": "file", "filename": s.files[key], "discard": "unmap"},
	})
	return string(b)
}

// disk is the device (PVE/QemuServer/DriveDevice.pm, print_drivedevice_full).
func (s shape) disk(d pvesim.Drive, first bool) string {
	n, boot := number(d.Key), ""
	if first {
		boot = ",bootindex=100"
	}
	if d.Serial != "" {
		boot += ",serial=" + d.Serial
	}
	if strings.HasPrefix(d.Key, "virtio") {
		return fmt.Sprintf("virtio-blk-pci,drive=drive-%s,id=%s,bus=pci.0,addr=%#x%s", d.Key, d.Key, 10+n, boot)
	}
	bus := "scsihw0.0"
	if s.Config["scsihw"] == single {
		bus = fmt.Sprintf("virtioscsi%d.0", n)
	}
	out := fmt.Sprintf("scsi-hd,bus=%s,channel=0,scsi-id=0,lun=%d,drive=drive-%s,id=%s", bus, n, d.Key, d.Key)
	if s.atLeast(10) {
		out += ",device_id=drive-" + d.Key
	}
	if props(s.Config[d.Key])["ssd"] == "1" {
		out += ",rotation_rate=1"
	}
	if out += boot; s.atLeast(10) {
		out += ",write-cache=on"
	}
	return out
}

// models are Proxmox's names of network cards, with QEMU's where they differ.
func models() map[string]string {
	return map[string]string{"virtio": "virtio-net-pci", "e1000": "e1000", "e1000e": "e1000e", "rtl8139": "rtl8139", "vmxnet3": "vmxnet3"}
}

// card is a network card.
type card struct {
	key   string // net0
	slot  int    // 0
	model string // QEMU's name
	mac   string
	mtu   int    // that the device tells the guest, which can set no larger one; 0: none
	lan   string // its network: see [LAN]
}

// pci is where it is plugged in (PVE/QemuServer/PCI.pm).
func (c card) pci() string {
	if c.slot < 6 {
		return fmt.Sprintf("bus=pci.0,addr=%#x", 0x12+c.slot)
	}
	return fmt.Sprintf("bus=pci.1,addr=%#x", c.slot-5)
}

func (s shape) cards() []card {
	var out []card
	for i := range 32 {
		key := fmt.Sprintf("net%d", i)
		all := props(s.Config[key])
		for name, mac := range all {
			model := models()[name]
			if model == "" {
				continue
			}
			c := card{key: key, slot: i, model: model, mac: mac}
			if mtu, _ := strconv.Atoi(all["mtu"]); name == "virtio" && mtu > 1 {
				c.mtu = mtu
			}
			if i > 0 {
				c.lan = all["bridge"] + "." + all["tag"]
			}
			out = append(out, c)
		}
	}
	return out
}

// network are the cards: in the LAN, or each in a network that it has alone and that leads
// nowhere, where only what is forwarded from this machine comes in.
func (s shape) network(o Options) []string {
	var out []string
	for i, c := range s.cards() {
		alone, host := o.Network.Masked(), o.Gateway
		if c.slot > 0 {
			alone = netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 31, byte(c.slot), 0}), 24)
			host = nth(alone, 1)
		}
		netdev := fmt.Sprintf("user,id=%s,ipv6=off,restrict=on,net=%s,host=%s,dns=%s,dhcpstart=%s", c.key, alone, host,
			nth(alone, -2), nth(alone, 100+s.VMID%100))
		if o.LAN != nil {
			netdev = fmt.Sprintf("socket,id=%s,fd=%d", c.key, firstCable+i)
		}
		device := fmt.Sprintf("%s,mac=%s,netdev=%s,%s,id=%s", c.model, c.mac, c.key, c.pci(), c.key)
		if c.mtu > 0 {
			device += fmt.Sprintf(",host_mtu=%d", c.mtu)
		}
		out = append(out, "-netdev", netdev,
			"-object", fmt.Sprintf("filter-dump,id=sent%d,netdev=%s,queue=rx,maxlen=64,file=%s%d", c.slot, c.key, s.sent, c.slot), "-device", device)
	}
	return out
}

// nth is an address of a network, from its end where n is negative.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr().As4()
	first := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	size := uint32(1) << (32 - p.Bits())
	first += (uint32(n) + size) % size
	return netip.AddrFrom4([4]byte{byte(first >> 24), byte(first >> 16), byte(first >> 8), byte(first)})
}
