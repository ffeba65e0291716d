package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

func hardwareProgram(name string) Program {
	switch name {
	case "nvidia-smi":
		return runSMI
	case "nvidia-container-runtime", "nvidia-container-runtime.cdi", "nvidia-ctk", "nvidia-container-cli":
		return runToolkit
	case "vectorAdd":
		return runVectorAdd
	case "lspci":
		return runLspci
	case "modprobe", "modinfo", "lsmod":
		return runModprobe
	case "dmesg":
		return runDmesg
	case "lsblk":
		return runLsblk
	case "blkid":
		return runBlkid
	case "mkfs.ext4", "mkfs.xfs":
		return runMkfs
	case "mount", "umount":
		return runMount
	case "xfs_info":
		return runXFSInfo
	case "findmnt":
		return runFindmnt
	case "df", "du":
		return runDf
	case "free":
		return runFree
	case "nproc":
		return runNproc
	case "k3s":
		return runK3sCommand
	}
	return nil
}

func runLspci(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:], "d", "s")
	vendor, device, _ := strings.Cut(last(opts, "d"), ":")
	for _, f := range p.sys.cfg.PCI {
		v, d := fmt.Sprintf("%04x", f.Vendor), fmt.Sprintf("%04x", f.Device)
		if vendor != "" && vendor != v || device != "" && !strings.HasPrefix(device, ":") && device != d {
			continue
		}
		if s := last(opts, "s"); s != "" && !strings.HasSuffix(f.Address, s) {
			continue
		}
		at := f.Address
		if !has(opts, "D") {
			at = strings.TrimPrefix(at, "0000:")
		}
		class := fmt.Sprintf("%04x", f.Class>>8)
		name := f.Model
		if name == "" {
			name = "Device"
		}
		switch {
		case len(opts["n"]) >= 2:
			p.printf("%s %s [%s]: %s [%s:%s] (rev a1)\n", at, className(class), class, name, v, d)
		case has(opts, "n"):
			p.printf("%s %s: %s:%s (rev a1)\n", at, class, v, d)
		default:
			p.printf("%s %s: %s (rev a1)\n", at, className(class), name)
		}
		if has(opts, "k") && p.sys.driverVersion() != "" && v == "10de" {
			p.printf("\tKernel driver in use: nvidia\n\tKernel modules: nvidia\n")
		}
	}
	return 0
}

func className(class string) string {
	return map[string]string{"0300": "VGA compatible controller", "0302": "3D controller", "0403": "Audio device", "0200": "Ethernet controller", "0680": "Bridge", "0c03": "USB controller"}[class]
}

// kernelModules are those beside NVIDIA's that the simulated kernels have, of the
// thousands of a distribution's.
const kernelModules = " overlay br_netfilter bridge 8021q bonding tun tap vxlan veth wireguard nf_conntrack nf_nat ip_tables ip6_tables ip_vs " +
	"ip_vs_rr ip_vs_wrr ip_vs_sh iptable_filter iptable_nat xt_conntrack ip_set rbd ceph nbd nfs nfsd nfsv4 cifs fuse loop " +
	"dm_crypt dm_thin_pool dm_snapshot dm_mod raid1 xfs btrfs ext4 iscsi_tcp nvme_tcp nvme_fabrics vfio vfio_pci " +
	"vfio_iommu_type1 vhost_net kvm kvm_intel kvm_amd msr zram tcp_bbr sch_fq configfs target_core_mod drm drm_kms_helper " +
	"snd_hda_intel nouveau "

// modprobe loads a module.
func (s *system) modprobe(name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	if name == "nvidia" || strings.HasPrefix(name, "nvidia_") {
		return s.loadNVIDIA(false)
	}
	if !strings.Contains(kernelModules, " "+name+" ") {
		return fmt.Errorf("FATAL: Module %s %w /lib/modules/%s", name, errModuleMissing, s.kernel)
	}
	s.loaded(s.kernel, name)
	return nil
}

func runModprobe(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "F", "field")
	if p.name() == "lsmod" {
		names := slices.Sorted(maps.Keys(p.sys.loadedModules()))
		p.printf("Module                  Size  Used by\n")
		for _, name := range names {
			p.printf("%-20s 16384  0\n", name)
		}
		return 0
	}
	if len(args) == 0 {
		return p.fail("ERROR: a module's name is needed")
	}
	if p.name() == "modinfo" {
		return p.modinfo(args[0], last(opts, "F", "field"))
	}
	if p.user.UID != 0 {
		return p.fail("ERROR: could not insert '%s': Operation not permitted", args[0])
	}
	if has(opts, "r") {
		return p.fail("ERROR: removing modules is not simulated")
	}
	code := 0
	for _, name := range args {
		_, there := p.sys.loadedModules()[strings.ReplaceAll(name, "-", "_")]
		err := p.sys.modprobe(name)
		switch {
		case errors.Is(err, errModuleMissing) && has(opts, "a"): // and goes on, as kmod does
			code = p.fail("%s", strings.Replace(err.Error(), "FATAL", "WARNING", 1))
			continue
		case err != nil:
			return p.fail("%v", err)
		}
		if !there {
			p.sys.mutated("module " + name + " loaded")
		}
		if !has(opts, "a") {
			break
		}
	}
	return code
}

func (p *proc) modinfo(name, field string) int {
	if !strings.HasPrefix(name, "nvidia") {
		p.printf("filename:       /lib/modules/%s/kernel/%s.ko\n", p.sys.kernel, name)
		return 0
	}
	d := installedDriver(p.sys.cfg.Disk, p.sys.kernel)
	if d == nil {
		return p.fail("ERROR: Module %s not found.", name)
	}
	license := map[bool]string{true: "Dual MIT/GPL", false: "NVIDIA"}[d.open]
	for _, kv := range [][2]string{
		{"filename", "/lib/modules/" + p.sys.kernel + "/kernel/nvidia-" + d.branch + "/" + name + ".ko"},
		{"version", d.version}, {"license", license}, {"vermagic", p.sys.kernel + " SMP preempt mod_unload modversions"}, {"signer", "Canonical Ltd. Kernel Module Signing"},
	} {
		switch field {
		case "":
			p.printf("%-15s %s\n", kv[0]+":", kv[1])
		case kv[0]:
			p.printf("%s\n", kv[1])
		}
	}
	return 0
}

func runDmesg(_ context.Context, p *proc) int {
	for _, line := range p.sys.said(kernelLog) {
		p.printf("%s\n", line)
	}
	return 0
}

func runDf(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "t", "output", "B", "x")
	var size int64 = 10 << 30
	if len(p.sys.disks()) > 0 {
		size = p.sys.disks()[0].Size
	}
	if p.name() == "du" {
		for _, a := range args {
			p.printf("4\t%s\n", a)
		}
		return 0
	}
	unit := int64(1 << 10)
	if has(opts, "B") && last(opts, "B") == "1" {
		unit = 1
	}
	p.printf("Filesystem 1K-blocks Used Available Use%% Mounted on\n/dev/sda %d %d %d 20%% /\n", size/unit, size/unit/5, size/unit/5*4)
	return 0
}

func runFree(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:])
	shift := 10
	switch {
	case has(opts, "b"):
		shift = 0
	case has(opts, "m"):
		shift = 20
	case has(opts, "g"):
		shift = 30
	}
	total := p.sys.cfg.Memory >> shift
	p.printf("               total        used        free      shared  buff/cache   available\n")
	p.printf("Mem:  %d %d %d 0 0 %d\nSwap: 0 0 0\n", total, total/10, total-total/10, total-total/10)
	return 0
}

func runNproc(_ context.Context, p *proc) int {
	p.printf("%s\n", strconv.Itoa(max(1, p.sys.cfg.CPUs)))
	return 0
}

// runToolkit is NVIDIA's container toolkit as far as one asks for its version.
func runToolkit(_ context.Context, p *proc) int {
	file, err := p.find(p.args[0])
	if err != nil {
		return p.fail("%v", err)
	}
	data, _ := p.fs.ReadFile(file)
	version := upstream(disk.Value(data, "version"))
	opts, args := flags(p.args[1:])
	switch {
	case has(opts, "version", "v"):
		p.printf("%s version %s\n", map[bool]string{true: "NVIDIA Container Toolkit CLI", false: "NVIDIA Container Runtime"}[p.name() == "nvidia-ctk"], version)
		return 0
	case len(args) >= 2 && args[0] == "runtime" && args[1] == "configure":
		if err := p.fs.MkdirAll("/etc/containerd/conf.d", 0o755); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
		if err := p.fs.WriteFile("/etc/containerd/conf.d/99-nvidia.toml", []byte("# nvidia-ctk; K3s never reads it\n"), 0o644); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
		return 0
	case len(args) >= 2 && args[0] == "cdi":
		return 0
	}
	return p.fail("only --version, runtime configure and cdi are simulated")
}
