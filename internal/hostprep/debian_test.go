//go:build linux

package hostprep_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/facts"
)

// kernel is what the tree says that it boots.
const kernel = "6.14.8-2-pve"

// tree is a file tree of real Debian programs in which commands run by chroot, with
// GRUB's update-grub and initramfs-tools' update-initramfs as they are. Only what
// would look at this machine's own hardware stands in: /proc, /sys, grub-probe.
type tree struct {
	t   *testing.T
	dir string
}

// newTree copies the packages from this machine. It is skipped where they are not.
func newTree(t *testing.T) *tree {
	t.Helper()
	facts.Root(t, "chroot")
	for program, pkg := range map[string]string{"/usr/sbin/update-grub": "grub2-common", "/usr/sbin/update-initramfs": "initramfs-tools", "/usr/bin/dpkg-query": "dpkg"} {
		facts.Program(t, program, pkg)
	}
	w := &tree{t, t.TempDir()}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} { // where they are links, no package has them
		if target, err := os.Readlink("/" + link); err == nil {
			require.NoError(t, os.Symlink(target, filepath.Join(w.dir, link)))
			require.NoError(t, os.MkdirAll(filepath.Join(w.dir, target), 0o755))
		}
	}
	list, err := exec.CommandContext(t.Context(), "dpkg-query", append([]string{"-L"}, closure(t, "grub2-common", "initramfs-tools",
		"bash", "dash", "coreutils", "sed", "grep", "mawk", "debianutils", "findutils", "hostname", "gzip", "libc-bin", "util-linux", "perl-base", "dpkg")...)...).Output()
	require.NoError(t, err)
	unused := regexp.MustCompile(`^/usr/share/(doc|man|locale|info|i18n|zoneinfo|perl)(/|$)|/gconv/|^/bin$|^/lib$|^/lib64$|^/sbin$`)
	var files []string
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") && !unused.MatchString(line) {
			files = append(files, "."+line)
		}
	}
	copying := exec.CommandContext(t.Context(), "sh", "-c",
		`tar -C / --no-recursion --ignore-failed-read -cf - -T - 2>/dev/null | tar -C "$1" --keep-directory-symlink -xf -`, "copy", w.dir)
	copying.Stdin = strings.NewReader(strings.Join(files, "\n"))
	out, err := copying.CombinedOutput()
	require.NoError(t, err, string(out))
	if awk, err := filepath.EvalSymlinks("/usr/bin/awk"); err == nil { // by update-alternatives
		require.NoError(t, os.Symlink(filepath.Base(awk), filepath.Join(w.dir, "usr/bin/awk")))
	}
	w.machine()
	return w
}

// closure is packages with all that they depend on, as far as it is installed.
func closure(t *testing.T, names ...string) []string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Pre-Depends},${Depends}\n").Output()
	require.NoError(t, err)
	depends := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); len(f) == 3 && f[0] == "installed" {
			depends[f[1]] = f[2]
		}
	}
	var out []string
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		list, installed := depends[name]
		if !installed || slices.Contains(out, name) {
			continue // an alternative that was not taken
		}
		out = append(out, name)
		for dep := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == '|' }) {
			if f := strings.FieldsFunc(dep, func(r rune) bool { return r == ' ' || r == ':' || r == '(' }); len(f) > 0 {
				names = append(names, f[0])
			}
		}
	}
	return out
}

func (w *tree) write(path, text string, perm os.FileMode) {
	w.t.Helper()
	full := filepath.Join(w.dir, path)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(w.t, os.WriteFile(full, []byte(text), perm))
	require.NoError(w.t, os.Chmod(full, perm))
}

func (w *tree) read(path string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, path))
	require.NoError(w.t, err)
	return string(b)
}

// machine is what an ordinary file cannot tell: the kernel's answers.
func (w *tree) machine() {
	for _, dir := range []string{"tmp", "var/tmp", "run", "boot/grub", "lib/modules/" + kernel, "sys/kernel/iommu_groups"} {
		require.NoError(w.t, os.MkdirAll(filepath.Join(w.dir, dir), 0o755))
	}
	w.write("/dev/null", "", 0o666)
	w.write("/boot/vmlinuz-"+kernel, "", 0o644)
	w.write("/boot/initrd.img-"+kernel, "", 0o644)
	w.write("/var/lib/initramfs-tools/"+kernel, "made by its postinst\n", 0o644)
	w.write("/boot/config-"+kernel, "CONFIG_RD_GZIP=y\nCONFIG_RD_ZSTD=y\n", 0o644)
	for _, list := range []string{"dep", "builtin", "order", "alias", "builtin.modinfo"} {
		w.write("/lib/modules/"+kernel+"/modules."+list, "", 0o644)
	}
	w.write("/usr/sbin/grub-probe", "#!/bin/sh\ncase \"$*\" in *target=device*) echo /dev/mapper/pve-root;; *target=fs_uuid*) echo 5a0c;; *target=fs*) echo ext2;; esac\n", 0o755)
	w.write("/usr/bin/uname", "#!/bin/sh\ncase $1 in -r) echo "+kernel+";; -m) echo x86_64;; *) echo Linux;; esac\n", 0o755)
	w.write("/usr/bin/pveversion", "#!/bin/sh\necho 'pve-manager/9.0.3/025864202ebb6109 (running kernel: "+kernel+")'\n", 0o755)
	w.write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n", 0o444)
	w.write("/etc/hostname", "pve\n", 0o644)
	for address, d := range map[string][3]string{"0000:01:00.0": {"0x2684", "0x030000", "nouveau"}, "0000:01:00.1": {"0x22ba", "0x040300", "snd_hda_intel"}} {
		dir := "/sys/bus/pci/devices/" + address
		w.write(dir+"/vendor", "0x10de\n", 0o444)
		w.write(dir+"/device", d[0]+"\n", 0o444)
		w.write(dir+"/class", d[1]+"\n", 0o444)
		w.driver(address, d[2])
	}
	w.booted("BOOT_IMAGE=/boot/vmlinuz-"+kernel+" root=/dev/mapper/pve-root ro quiet", time.Now().Add(-time.Hour))
}

func (w *tree) driver(address, name string) {
	link := filepath.Join(w.dir, "sys/bus/pci/devices", address, "driver")
	_ = os.Remove(link)
	require.NoError(w.t, os.Symlink("../../../bus/pci/drivers/"+name, link))
}

// booted is a boot with a command line.
func (w *tree) booted(line string, at time.Time) {
	w.write("/proc/cmdline", line+"\n", 0o444)
	w.write("/proc/stat", fmt.Sprintf("btime %d\n", at.Unix()), 0o444)
	w.write("/proc/sys/kernel/random/boot_id", fmt.Sprint(at.UnixNano(), "\n"), 0o444)
	if strings.Contains(line, "iommu=pt") {
		w.write("/sys/kernel/iommu_groups/13/type", "identity\n", 0o444)
		for _, address := range []string{"0000:01:00.0", "0000:01:00.1"} {
			_ = os.Symlink("../../../../kernel/iommu_groups/13", filepath.Join(w.dir, "sys/bus/pci/devices", address, "iommu_group"))
			w.driver(address, "vfio-pci")
		}
	}
}

// Run implements remote.Runner.
func (w *tree) Run(ctx context.Context, cmd remote.Cmd) error {
	c := exec.CommandContext(ctx, "chroot", append([]string{w.dir}, cmd.Args...)...)
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root"}
	var tail remote.Tail
	c.Stdin, c.Stdout, c.Stderr = cmd.Stdin, cmd.Stdout, &tail
	if cmd.Stderr != nil {
		c.Stderr = io.MultiWriter(cmd.Stderr, &tail)
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &remote.ExitError{Args: cmd.Args, Code: exit.ExitCode(), Stderr: tail.String()}
	}
	return err
}

// TestOnRealDebianFileTrees prepares a host by the real programs: what update-grub and
// update-initramfs make of the files is looked at, not that they were called.
func TestOnRealDebianFileTrees(t *testing.T) {
	installed := strings.Join([]string{
		"# If you change this file, run 'update-grub' afterwards to update", "# /boot/grub/grub.cfg.", "",
		"GRUB_DEFAULT=0", "GRUB_TIMEOUT=5", "GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`",
		`GRUB_CMDLINE_LINUX_DEFAULT="quiet"`, `GRUB_CMDLINE_LINUX=""`, "", "# Uncomment to enable BadRAM filtering", "#GRUB_BADRAM=\"0x01234567,0xfefefefe\"", "",
	}, "\n")
	t.Run("GRUB", func(t *testing.T) {
		w := newTree(t)
		w.write("/etc/default/grub", installed, 0o644)
		w.prepare("update-grub", func() string {
			_, line, ok := strings.Cut(w.read("/boot/grub/grub.cfg"), "\tlinux\t")
			require.True(t, ok)
			line, _, _ = strings.Cut(line, "\n")
			return "BOOT_IMAGE=" + line
		})
		assert.Equal(t, strings.Replace(installed, `"quiet"`, `"quiet iommu=pt"`, 1), w.read("/etc/default/grub"))
		assert.Equal(t, installed, w.read("/etc/default/grub"+hostprep.BackupSuffix))
	})
	t.Run("systemd-boot on ZFS", func(t *testing.T) {
		w := newTree(t)
		script, err := os.ReadFile("testdata/proxmox-boot-tool.sh")
		require.NoError(t, err)
		w.write("/usr/sbin/proxmox-boot-tool", string(script), 0o755)
		w.write("/etc/kernel/proxmox-boot-uuids", "936E-9A3F\n", 0o644)
		w.write("/etc/kernel/cmdline", "root=ZFS=rpool/ROOT/pve-1 boot=zfs\n", 0o644)
		w.write("/etc/default/grub", installed, 0o644)
		w.write("/etc/default/grub.d/zfs.cfg", `GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX root=ZFS=rpool/ROOT/pve-1 boot=zfs"`, 0o644)
		require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "sys/firmware/efi"), 0o755))
		w.prepare("proxmox-boot-tool refresh", func() string {
			_, line, ok := strings.Cut(w.read("/var/tmp/esp/loader/entries/proxmox.conf"), "options  ")
			require.True(t, ok)
			return "initrd=\\EFI\\proxmox\\initrd.img " + strings.TrimSpace(line)
		})
		assert.Equal(t, "root=ZFS=rpool/ROOT/pve-1 boot=zfs iommu=pt\n", w.read("/etc/kernel/cmdline"))
		assert.Equal(t, installed, w.read("/etc/default/grub"), "GRUB does not boot this host")
	})
}

// prepare goes the whole way. line is what the boot loader would pass now.
func (w *tree) prepare(refresh string, line func() string) {
	t := w.t
	w.write("/etc/modprobe.d/pve-blacklist.conf", "blacklist nvidiafb\n", 0o644)
	w.write("/etc/modules", "# mine\nvfio_virqfd\n", 0o644)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "etc/modules-load.d"), 0o755))
	_ = os.Symlink("../modules", filepath.Join(w.dir, "etc/modules-load.d/modules.conf"))
	changes, err := gpus().Changes(readOptional(t, w))
	require.NoError(t, err)
	var commands []string
	for _, c := range changes {
		for _, command := range c.Commands {
			commands = append(commands, strings.Join(command, " "))
		}
	}
	require.Equal(t, []string{refresh, "update-initramfs -u -k all"}, commands)
	all(t, w, gpus())
	assert.Empty(t, gpus().Diff(readOptional(t, w)), "the second time changes nothing")
	assert.NotEmpty(t, gpus().Reboot(readOptional(t, w)))
	assert.Equal(t, "# mine\n", w.read("/etc/modules"))

	// What the kernel will find.
	assert.Regexp(t, `^(BOOT_IMAGE|initrd)=\S+ root=\S+ .*\biommu=pt\b`, line())
	inside, err := remote.Output(t.Context(), w, "lsinitramfs", "/boot/initrd.img-"+kernel)
	require.NoError(t, err)
	assert.Contains(t, string(inside), "etc/modprobe.d/homelab-vfio.conf")
	require.NoError(t, remote.Run(t.Context(), w, "sh", "-c", "cd /tmp && unmkinitramfs /boot/initrd.img-"+kernel+" x"))
	assert.Contains(t, w.read("/tmp/x/etc/modprobe.d/homelab-vfio.conf"), "options vfio-pci ids=10de:22ba,10de:2684\n")
	w.modprobe()

	w.booted(line(), time.Now().Add(time.Minute))
	s := readOptional(t, w)
	assert.Empty(t, gpus().Diff(s))
	assert.Empty(t, gpus().Reboot(s))
	assert.Empty(t, fatal(gpus().Notes(s)))
}

// modprobe lets kmod itself read the file: it knows every line of it.
func (w *tree) modprobe() {
	out, err := remote.Output(w.t.Context(), w, "modprobe", "-c", "-d", "/", "-S", kernel)
	require.NoError(w.t, err)
	for _, line := range []string{"options vfio_pci ids=10de:22ba,10de:2684", "softdep nouveau pre: vfio-pci", "softdep snd_hda_intel pre: vfio-pci"} {
		assert.Contains(w.t, string(out), line)
	}
}
