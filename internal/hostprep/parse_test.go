package hostprep

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// FuzzState: whatever a host prints, or breaks off, is an error or a State that the
// pure functions can take.
func FuzzState(f *testing.F) {
	f.Add([]byte("\n@@ version\npve-manager/9.0.3/x (running kernel: 6.14.8-2-pve)\n\n@@ kernel\n6.14.8-2-pve\n\n@@ cpu\nvendor_id\t: GenuineIntel\n" +
		"\n@@ cmdline\nBOOT_IMAGE=/boot/vmlinuz quiet\n\n@@ booted\nbtime 1763670000\n\n@@ esps\n936E-9A3F is configured with: uefi (versions: 6.14.8-2-pve), grub (versions: 6.14.8-2-pve)\n" +
		"\n@@ pci\n0000:01:00.0 0x030000 0x10de 0x2684 1 -1 group=13 driver=nouveau\n0000:01:00.1 0x040300 0x10de 0x22ba 0 0 group= driver=\n" +
		"\n@@ file 644 1763670000 /etc/default/grub\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n\n@@ file 644 1 /etc/kernel/cmdline\n\n@@ file 644 1 /etc/modprobe.d/v.conf\noptions vfio-pci ids=1:2\n\n@@ end\n"))
	f.Add([]byte("\n@@ version\npve-manager/8\n\n@@ file\n\n@@ end"))
	f.Fuzz(func(t *testing.T, out []byte) {
		s, err := parseState(out)
		if err != nil {
			return
		}
		spec := Spec{Owner: "a test", GPUs: true}
		changes, err := spec.Changes(s)
		_, _ = spec.Reboot(s), spec.Notes(s)
		if err != nil {
			return
		}
		// What the changes make of the files needs no further change.
		for _, c := range changes {
			s.Files = withChanges(s.Files, c.Files)
		}
		again, err := spec.Changes(s)
		if err != nil {
			return // a file was no text: what we add to it need not make it one
		}
		for _, c := range again {
			if len(c.Files) > 0 {
				t.Fatalf("%s changes %q a second time: %q", c.ID, c.Files[0].Before, c.Files[0].After)
			}
		}
	})
}

func FuzzAccess(f *testing.F) {
	f.Add([]byte("\n@@ version\n{\"version\":\"9.0.3\"}\n\n@@ storages\n[{\"storage\":\"local\",\"type\":\"dir\",\"content\":\"iso\"}]\n\n@@ roles\n[{\"roleid\":\"x\",\"privs\":\"VM.Audit\"}]\n" +
		"\n@@ users\n[{\"userid\":\"a@pve\"}]\n\n@@ acl\n[{\"path\":\"/\",\"ugid\":\"a@pve\",\"roleid\":\"x\",\"propagate\":1}]\n\n@@ tokens\n[{\"tokenid\":\"t\",\"privsep\":\"0\"}]\n" +
		"\n@@ may /vms\n{\"/vms\":{\"VM.Audit\":1}}\n\n@@ end\n"))
	f.Fuzz(func(_ *testing.T, out []byte) {
		a := Access{Prefix: "p", TokenID: "a@pve!t", Grants: []proxmox.Grant{{Path: "/vms", Privileges: []string{"VM.Audit"}}}, Storages: []Storage{{"local", []string{"iso"}, []string{"x"}}}}
		if s, err := a.parseAccess(out); err == nil {
			_, _ = a.Changes(s), a.Notes(s)
		}
	})
}

func TestLoaders(t *testing.T) {
	for status, want := range map[string][]Loader{
		"": {GRUB},
		"System currently booted with uefi\nWARN: /dev/disk/by-uuid/936F-0211 does not exist\n": nil,
		"System currently booted with uefi\n936E-9A3F is configured with: \n":                   nil,
		"Re-executing '/usr/sbin/proxmox-boot-tool' in new private mount namespace..\nSystem currently booted with uefi\n" +
			"936E-9A3F is configured with: uefi (versions: 6.8.12-4-pve, 6.14.8-2-pve)\nWARN: /dev/disk/by-uuid/936F-0211 does not exist\n": {SystemdBoot},
		"System currently booted with legacy bios\n936E-9A3F is configured with: grub (versions: 6.8.12-4-pve)\n":                    {GRUB},
		"936E-9A3F is configured with: uefi (versions: 6.8.12-4-pve), grub (versions: 6.8.12-4-pve)\n":                               {SystemdBoot, GRUB},
		"936E-9A3F is configured with: grub (versions: 6.8.12-4-pve)\n936F-0211 is configured with: uefi (versions: 6.8.12-4-pve)\n": {GRUB, SystemdBoot},
	} {
		assert.Equal(t, want, loaders(status), status)
	}
}

// TestBothLoaders: an ESP that has both is told by both.
func TestBothLoaders(t *testing.T) {
	s := State{Kernel: "6.5.13-6-pve", Intel: true, ESPs: true, Loaders: []Loader{SystemdBoot, GRUB}, Cmdline: "initrd=\\EFI\\x root=ZFS=rpool quiet BOOT_IMAGE=/x",
		Devices: []Device{{Function: pci.Function{Class: "030000", Vendor: "10de", Device: "2684"}}},
		Files:   []File{{Path: "/etc/default/grub", Text: "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"}}}
	c, err := Spec{GPUs: true}.boot(s)
	require.NoError(t, err)
	require.Len(t, c.Files, 2)
	assert.Equal(t, FileChange{Path: "/etc/kernel/cmdline", After: "root=ZFS=rpool quiet intel_iommu=on iommu=pt\n", New: true}, c.Files[0],
		"without the file proxmox-boot-tool takes what the kernel runs with")
	assert.Equal(t, "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intel_iommu=on iommu=pt\"\n", c.Files[1].After)
	assert.Equal(t, [][]string{{"proxmox-boot-tool", "refresh"}}, c.Commands)
}

// TestNoESPSaysHowItBoots: with the wrong file changed nothing would ever come of it.
func TestNoESPSaysHowItBoots(t *testing.T) {
	_, err := Spec{GPUs: true}.boot(State{Kernel: "6.14", ESPs: true})
	require.ErrorContains(t, err, "does not say how any of them boots: proxmox-boot-tool status on the host says why")
}

// TestDoneByHand: what we do not dare to change somebody else may have changed.
func TestDoneByHand(t *testing.T) {
	s := State{Kernel: "6.14", Loaders: []Loader{GRUB}, Cmdline: "quiet amd_iommu=off",
		Files: []File{{Path: "/etc/default/grub", Text: "GRUB_CMDLINE_LINUX_DEFAULT+=\" quiet\"\n"}}}
	_, err := Spec{GPUs: true}.boot(s)
	require.ErrorContains(t, err, "or change it yourself: add iommu=pt, take out amd_iommu=off; then run update-grub, reboot, and run this again")
	s.Cmdline = "quiet iommu=pt"
	c, err := Spec{GPUs: true}.boot(s)
	require.NoError(t, err)
	assert.Nil(t, c)
}

func TestAQuoteThatIsNeverClosed(t *testing.T) {
	s := State{Kernel: "6.14", ESPs: true, Loaders: []Loader{SystemdBoot}, Files: []File{{Path: "/etc/kernel/cmdline", Text: "root=ZFS=rpool dyndbg=\"file x\n"}}}
	_, err := Spec{GPUs: true}.boot(s)
	require.ErrorContains(t, err, "/etc/kernel/cmdline: the command line has an unclosed quote")
	s = State{Kernel: "6.14", Loaders: []Loader{GRUB}, Files: []File{{Path: "/etc/default/grub", Text: "GRUB_CMDLINE_LINUX_DEFAULT='dyndbg=\"file x'\n"}}}
	_, err = Spec{GPUs: true}.boot(s)
	require.ErrorContains(t, err, "/etc/default/grub: the command line has an unclosed quote")
}

// TestKernelDefaults: which kernels need to be asked.
func TestKernelDefaults(t *testing.T) {
	for kernel, want := range map[string]bool{"6.5.13-6-pve": true, "5.15.158-2-pve": true, "6.8.12-4-pve": false, "6.14.8-2-pve": false, "7.0.2-1-pve": false} {
		o := Spec{GPUs: true}.options(State{Kernel: kernel, Intel: true})
		assert.Equal(t, want, cmdline(o.want).has("intel_iommu=on"), kernel)
		assert.False(t, cmdline(Spec{GPUs: true}.options(State{Kernel: kernel}).want).has("intel_iommu=on"), "AMD, %s", kernel)
	}
	o := Spec{GPUs: true}.options(State{Kernel: "6.14", Cmdline: "iommu=nopt"})
	assert.Empty(t, o.want, "whoever chose another mode has a reason")
}
