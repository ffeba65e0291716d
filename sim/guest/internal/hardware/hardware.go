package hardware

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs that load modules and show what the kernel says.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"modprobe": runModprobe,
		"dmesg":    runDmesg,
	}
}

// ClassName is what lspci calls a class of devices.
func ClassName(class string) string {
	return map[string]string{"0300": "VGA compatible controller", "0302": "3D controller", "0403": "Audio device", "0200": "Ethernet controller", "0680": "Bridge", "0c03": "USB controller"}[class]
}

// kernelModules are those beside NVIDIA's that the simulated kernels have, of the
// thousands of a distribution's.
const kernelModules = " overlay br_netfilter bridge 8021q bonding tun tap vxlan veth wireguard nf_conntrack nf_nat ip_tables ip6_tables ip_vs " +
	"ip_vs_rr ip_vs_wrr ip_vs_sh iptable_filter iptable_nat xt_conntrack ip_set rbd ceph nbd nfs nfsd nfsv4 cifs fuse loop " +
	"dm_crypt dm_thin_pool dm_snapshot dm_mod raid1 xfs btrfs ext4 iscsi_tcp nvme_tcp nvme_fabrics vfio vfio_pci " +
	"vfio_iommu_type1 vhost_net kvm kvm_intel kvm_amd msr zram tcp_bbr sch_fq configfs target_core_mod drm drm_kms_helper " +
	"snd_hda_intel nouveau "

// Modprobe loads a module.
func Modprobe(s *machine.System, name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	if name == "nvidia" || strings.HasPrefix(name, "nvidia_") {
		return gpu.Load(s, false)
	}
	if !strings.Contains(kernelModules, " "+name+" ") {
		return fmt.Errorf("FATAL: Module %s %w /lib/modules/%s", name, gpu.ErrModuleMissing, s.Kernel())
	}
	s.AddModules(s.Kernel(), name)
	return nil
}

func runModprobe(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:])
	if len(args) == 0 {
		return p.Fail("ERROR: a module's name is needed")
	}
	if p.User.UID != 0 {
		return p.Fail("ERROR: could not insert '%s': Operation not permitted", args[0])
	}
	if getopt.Has(opts, "r") {
		return p.Fail("ERROR: removing modules is not simulated")
	}
	code := 0
	for _, name := range args {
		_, there := p.Sys.Modules()[strings.ReplaceAll(name, "-", "_")]
		err := Modprobe(p.Sys, name)
		switch {
		case errors.Is(err, gpu.ErrModuleMissing) && getopt.Has(opts, "a"): // and goes on, as kmod does
			code = p.Fail("%s", strings.Replace(err.Error(), "FATAL", "WARNING", 1))
			continue
		case err != nil:
			return p.Fail("%v", err)
		}
		if !there {
			p.Sys.RecordChange("module " + name + " loaded")
		}
		if !getopt.Has(opts, "a") {
			break
		}
	}
	return code
}

func runDmesg(_ context.Context, p *machine.Proc) int {
	for _, line := range p.Sys.Messages(machine.KernelLog) {
		p.Printf("%s\n", line)
	}
	return 0
}
