package hostprep_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// root logs in to the first host of a model, by SSH.
func root(t *testing.T, m pvesim.Model) (*pvesim.Sim, remote.Runner) {
	t.Helper()
	sim := pvesim.New(m, pvesim.Options{})
	t.Cleanup(sim.Close)
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := xssh.ParsePrivateKey(private)
	require.NoError(t, err)
	shell, err := sim.HostShell(t.Context(), m.Hosts[0].Name, public)
	require.NoError(t, err)
	key, err := ssh.ParseAuthorizedKey(shell.HostKey)
	require.NoError(t, err)
	client := ssh.New(ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: sim.Network().Dial})
	t.Cleanup(func() { _ = client.Close() })
	return sim, client
}

func readOptional(t *testing.T, r remote.Runner) hostprep.State {
	t.Helper()
	s, err := hostprep.Observe(t.Context(), r)
	require.NoError(t, err)
	return s
}

// all prepares a host as far as it goes without a reboot.
func all(t *testing.T, r remote.Runner, spec hostprep.Spec) {
	t.Helper()
	for _, id := range []string{hostprep.Boot, hostprep.Modules, hostprep.Cards, hostprep.Initramfs} {
		c, err := spec.Change(readOptional(t, r), id)
		require.NoError(t, err)
		if c != nil {
			undo := strings.Join(c.Undo, "\n")
			for _, f := range c.Files {
				assert.True(t, strings.Contains(undo, f.Path) || strings.Contains(undo, "each "+hostprep.BackupSuffix), "%s is not in %q", f.Path, undo)
			}
			assert.False(t, len(c.Files) == 0 && strings.Contains(undo, hostprep.BackupSuffix), "no file has a copy: %q", undo)
			require.NoError(t, hostprep.Apply(t.Context(), r, c), id)
		}
	}
}

func gpus() hostprep.Spec { return hostprep.Spec{Owner: "a test", GPUs: true} }

func fresh(edit func(*pvesim.Host)) pvesim.Model {
	m := pvesim.OneGPU()
	m.Hosts[0].OS.Fresh = true
	if edit != nil {
		edit(&m.Hosts[0])
	}
	return m
}

// in runs a test in a world of its own, in which waiting costs nothing.
func in(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func fatal(notes []hostprep.Note) (out []string) {
	for _, n := range notes {
		if n.Fatal {
			out = append(out, n.What+" → "+n.Do)
		}
	}
	return out
}

func TestAHealthyHostIsLeftAlone(t *testing.T) {
	for _, m := range []pvesim.Model{pvesim.OneGPU(), pvesim.EightA100(), pvesim.TwoHosts()} {
		for _, loader := range []string{"grub", "systemd-boot", "esp-grub"} {
			m.Hosts[0].OS.Loader = loader
			in(t, loader, func(t *testing.T) {
				_, r := root(t, m)
				s := readOptional(t, r)
				assert.Empty(t, gpus().Diff(s))
				assert.Empty(t, gpus().Reboot(s))
				assert.Empty(t, gpus().Notes(s))
			})
		}
	}
}

// TestWhatTheAdminHasStays is about files that are not ours.
func TestWhatTheAdminHasStays(t *testing.T) {
	in(t, "vfio_virqfd and a foreign vfio.conf", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) {
			h.OS.Files = map[string]string{
				"/etc/modules":              "# mine\nvfio\nvfio_virqfd\nloop\n",
				"/etc/modprobe.d/vfio.conf": "# the SAS card\noptions vfio-pci disable_vga=1 ids=1000:0097 # keep\nblacklist nouveau\n",
				"/etc/default/grub":         "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT='quiet  mitigations=off' # mine\n",
			}
		}))
		all(t, r, gpus())
		read := func(path string) string {
			b, err := remote.ReadFile(t.Context(), r, path)
			require.NoError(t, err)
			return string(b)
		}
		assert.Equal(t, "# mine\nvfio\nloop\n", read("/etc/modules"))
		assert.Equal(t, "# the SAS card\noptions vfio-pci disable_vga=1 ids=1000:0097,10de:22ba,10de:2684 # keep\nblacklist nouveau\n", read("/etc/modprobe.d/vfio.conf"))
		assert.NotContains(t, read("/etc/modprobe.d/homelab-vfio.conf"), "ids=", "the kernel obeys one such line")
		assert.Equal(t, "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT='quiet  mitigations=off iommu=pt' # mine\n", read("/etc/default/grub"))
		assert.Equal(t, "# mine\nvfio\nvfio_virqfd\nloop\n", read("/etc/modules"+hostprep.BackupSuffix))
		assert.Empty(t, gpus().Diff(readOptional(t, r)))
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		s := readOptional(t, r)
		assert.Empty(t, gpus().HeldByHostDriver(s))
		assert.Empty(t, gpus().Diff(s))
		assert.Empty(t, gpus().Reboot(s))
	})
	in(t, "before Linux 6.2 vfio_virqfd is a module", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) {
			h.Kernel = "5.15.158-2-pve"
			h.OS.Files = map[string]string{"/etc/modules": "vfio_virqfd\n"}
		}))
		c, err := gpus().Change(readOptional(t, r), hostprep.Modules)
		require.NoError(t, err)
		require.Len(t, c.Files, 1)
		assert.Equal(t, "/etc/modules-load.d/homelab-vfio.conf", c.Files[0].Path)
	})
	in(t, "what is kept is the first", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		before, err := remote.ReadFile(t.Context(), r, "/etc/default/grub")
		require.NoError(t, err)
		all(t, r, gpus())
		require.NoError(t, remote.WriteFile(t.Context(), r, "/etc/default/grub", []byte("GRUB_CMDLINE_LINUX_DEFAULT=\"other\"\n"), 0o644))
		all(t, r, gpus())
		kept, err := remote.ReadFile(t.Context(), r, "/etc/default/grub"+hostprep.BackupSuffix)
		require.NoError(t, err)
		assert.Equal(t, string(before), string(kept))
	})
	in(t, "somebody else was faster", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		c, err := gpus().Change(readOptional(t, r), hostprep.Boot)
		require.NoError(t, err)
		theirs := []byte("GRUB_CMDLINE_LINUX_DEFAULT=\"theirs\"\n")
		require.NoError(t, remote.WriteFile(t.Context(), r, "/etc/default/grub", theirs, 0o644))
		require.ErrorContains(t, hostprep.Apply(t.Context(), r, c), "changed by somebody else")
		now, err := remote.ReadFile(t.Context(), r, "/etc/default/grub")
		require.NoError(t, err)
		assert.Equal(t, theirs, now)
	})
	in(t, "a line that we do not dare to change", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) {
			h.OS.Files = map[string]string{"/etc/default/grub": "GRUB_CMDLINE_LINUX_DEFAULT=\"$(cat /etc/opts)\"\n"}
		}))
		_, err := gpus().Changes(readOptional(t, r))
		assert.ErrorContains(t, err, "/etc/default/grub:1: GRUB_CMDLINE_LINUX_DEFAULT is the output of a command")
		assert.NotEmpty(t, gpus().Diff(readOptional(t, r)))
	})
}

// TestACrashAnywhere: a run that ends after any command is gone on with by the next,
// and what the boot loader and the initramfs were not told is told.
func TestACrashAnywhere(t *testing.T) {
	for _, loader := range []string{"grub", "systemd-boot"} {
		mine := share.Start(t, "crashes while a host of "+loader+" is prepared")
		for after := 1; ; after++ {
			if !mine.Next() {
				continue
			}
			done := false
			in(t, loader, func(t *testing.T) {
				_, r := root(t, fresh(func(h *pvesim.Host) { h.OS.Loader = loader }))
				ctx, crash := context.WithCancel(t.Context())
				defer crash()
				n := 0
				dying := remote.RunnerFunc(func(c context.Context, cmd remote.Cmd) error {
					if n++; n > after {
						crash()
						c = ctx // whoever is dead waits for no command
					}
					return r.Run(c, cmd)
				})
				done = true
				for _, id := range []string{hostprep.Boot, hostprep.Modules, hostprep.Cards, hostprep.Initramfs} {
					c, err := gpus().Change(readOptional(t, r), id)
					require.NoError(t, err)
					if c == nil {
						continue
					}
					if err := hostprep.Apply(ctx, dying, c); err != nil {
						done = false
						break
					}
				}
				all(t, r, gpus())
				assert.Empty(t, gpus().Diff(readOptional(t, r)))
				require.NoError(t, hostprep.Reboot(t.Context(), r))
				s := readOptional(t, r)
				assert.Empty(t, gpus().HeldByHostDriver(s), "after a crash at command %d", after)
				assert.Empty(t, gpus().Diff(s))
				assert.Empty(t, gpus().Reboot(s))
			})
			if done {
				assert.Greater(t, after, 8)
				break
			}
			require.Less(t, after, 50)
		}
	}
}

func TestNotes(t *testing.T) {
	in(t, "off in the firmware", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) { h.NoIOMMU = true }))
		want := []string{"the kernel finds no IOMMU: it is off in the firmware → switch on AMD-Vi, also called IOMMU in the firmware's setup at the next reboot"}
		assert.Equal(t, want, fatal(gpus().Notes(readOptional(t, r))), "known before the reboot, which is when one is there")
		all(t, r, gpus())
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		s := readOptional(t, r)
		assert.Equal(t, want, fatal(gpus().Notes(s)))
		assert.Empty(t, gpus().Reboot(s), "another reboot is of no use")
	})
	in(t, "off on the command line", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) { h.OS.Cmdline = "amd_iommu=off" }))
		s := readOptional(t, r)
		assert.Empty(t, fatal(gpus().Notes(s)))
		assert.Contains(t, strings.Join(gpus().Reboot(s), ";"), "the kernel runs with amd_iommu=off")
		all(t, r, gpus())
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		s = readOptional(t, r)
		assert.True(t, s.IOMMU)
		assert.Empty(t, gpus().Diff(s))
	})
	in(t, "a driver that comes first all the same", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		all(t, r, gpus())
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		s := readOptional(t, r)
		for i := range s.Devices {
			if s.Devices[i].IsGPU() {
				s.Devices[i].Driver = "nouveau"
			}
		}
		assert.Empty(t, gpus().Diff(s))
		assert.Empty(t, gpus().Reboot(s), "it was started with all of this")
		require.Len(t, fatal(gpus().Notes(s)), 1)
		assert.Contains(t, fatal(gpus().Notes(s))[0], "its own drivers still hold 0000:01:00.0 (nouveau)")
	})
	in(t, "a stranger in the group, another card of the model, ACS, containers", func(t *testing.T) {
		m := pvesim.TwoHosts()
		m.Hosts = m.Hosts[:1]
		h := &m.Hosts[0]
		h.PCI = append(h.PCI, pvesim.PCIDevice{Address: "0000:05:00.0", ID: "8086:1572", Class: "020000", Group: 13, Vendor: "Intel Corporation", Name: "Ethernet Controller X710"})
		h.OS = pvesim.HostOS{Fresh: true, Console: "0000:21:00.0", Cmdline: "pcie_acs_override=downstream",
			Files: map[string]string{"/etc/pve/lxc/101.conf": "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file\n"}}
		_, r := root(t, m)
		spec := gpus()
		spec.Cards = []proxmox.PCIAddress{{Bus: 1, Function: -1}}
		notes := spec.Notes(readOptional(t, r))
		var text []string
		for _, n := range notes {
			text = append(text, n.What)
		}
		assert.Equal(t, []string{
			"0000:01:00.0 shares IOMMU group 13 with 0000:05:00.0 (i40e), which the host would lose",
			"0000:21:00.0 is of the same model as a card that VMs get and shows the host's console, which would go dark; the host loses it as well",
			"pcie_acs_override is on the command line: it only makes IOMMU groups look separate, so a VM with one card may reach the memory of another VM",
			"containers use NVIDIA cards of the host and lose the cards that VMs get: /etc/pve/lxc/101.conf",
		}, text)
	})
	in(t, "a command line that comes from elsewhere", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		all(t, r, gpus())
		assert.Empty(t, fatal(gpus().Notes(readOptional(t, r))))
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		s := readOptional(t, r)
		s.Cmdline = "root=/dev/sdb1"
		assert.Empty(t, gpus().Diff(s))
		assert.Empty(t, gpus().Reboot(s), "another reboot is of no use")
		require.Len(t, fatal(gpus().Notes(s)), 1)
		assert.Contains(t, fatal(gpus().Notes(s))[0], "the kernel runs without iommu=pt: it boots from another disk → proxmox-boot-tool status")
	})
	in(t, "one more card, later", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		all(t, r, gpus())
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		s := readOptional(t, r)
		card := s.Devices[slices.IndexFunc(s.Devices, func(d hostprep.Device) bool { return d.IsGPU() })]
		card.Address.Bus, card.Device, card.Driver, card.IOMMUGroup = 0x41, "20b0", "nouveau", 99
		s.Devices = append(s.Devices, card)
		assert.Equal(t, []string{"the host's own drivers hold 0000:41:00.0 (nouveau)"}, gpus().Reboot(s))
		assert.Empty(t, fatal(gpus().Notes(s)), "it was not there when the host was started")
	})
	in(t, "no such card", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		spec := gpus()
		spec.Cards = []proxmox.PCIAddress{{Bus: 0x41, Function: -1}}
		assert.Equal(t, []string{"there is no device at 0000:41:00 → lspci -nn on the host shows where its cards are"}, fatal(spec.Notes(readOptional(t, r))))
	})
}

// TestWhatIsNoGPUStaysWithTheHost: addresses move when hardware is put in, and the
// file then names the network card or the disk.
func TestWhatIsNoGPUStaysWithTheHost(t *testing.T) {
	in(t, "a network card", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) {
			h.PCI = append(h.PCI, pvesim.PCIDevice{Address: "0000:05:00.0", ID: "8086:1572", Class: "020000", Group: 15, Vendor: "Intel Corporation", Name: "Ethernet Controller X710"})
		}))
		spec := gpus()
		spec.Cards = []proxmox.PCIAddress{{Bus: 1, Function: -1}, {Bus: 5, Function: -1}}
		changes, err := spec.Changes(readOptional(t, r))
		assert.Empty(t, changes)
		require.ErrorContains(t, err, "wants to pass 0000:05:00 through as a GPU, and it is Intel Corporation Ethernet Controller X710 (8086:1572), which the host would lose")
		spec.Cards = spec.Cards[:1]
		changes, err = spec.Changes(readOptional(t, r))
		require.NoError(t, err)
		assert.NotEmpty(t, changes)
	})
}

// TestNoCommandIsCutShort: half an initramfs on an ESP is a host that does not start.
func TestNoCommandIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var ended []string
		slow := remote.RunnerFunc(func(c context.Context, cmd remote.Cmd) error {
			stop()
			select {
			case <-c.Done():
				return c.Err()
			case <-time.After(time.Minute):
				ended = append(ended, cmd.String())
				return nil
			}
		})
		err := hostprep.Apply(ctx, slow, &hostprep.Change{Commands: [][]string{{"proxmox-boot-tool", "refresh"}, {"update-grub"}}})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []string{"proxmox-boot-tool refresh"}, ended, "waited for, and nothing more is begun")
	})
}

func TestFramebuffer(t *testing.T) {
	in(t, "asked for", func(t *testing.T) {
		_, r := root(t, fresh(func(h *pvesim.Host) { h.OS.Console = "0000:01:00.0" }))
		spec := gpus()
		c, err := spec.Change(readOptional(t, r), hostprep.Boot)
		require.NoError(t, err)
		assert.NotContains(t, c.Files[0].After, "sysfb_init", "never unasked")
		spec.Framebuffer = true
		c, err = spec.Change(readOptional(t, r), hostprep.Boot)
		require.NoError(t, err)
		assert.Contains(t, c.Files[0].After, "iommu=pt initcall_blacklist=sysfb_init")
	})
}

// TestRebootWaits: until the host is back, or there is no use in waiting.
func TestRebootWaits(t *testing.T) {
	in(t, "back", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		before := time.Now()
		require.NoError(t, hostprep.Reboot(t.Context(), r))
		assert.Greater(t, time.Since(before), time.Minute)
	})
	in(t, "never", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		gone := false
		err := hostprep.Reboot(ctx, remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
			if gone {
				<-ctx.Done()
				return ctx.Err()
			}
			gone = slices.Contains(cmd.Args, "reboot")
			return r.Run(ctx, cmd)
		}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "has not come back: look at its console")
	})
	in(t, "refused", func(t *testing.T) {
		_, r := root(t, fresh(nil))
		err := hostprep.Reboot(t.Context(), remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
			if slices.Contains(cmd.Args, "reboot") {
				return &remote.ExitError{Args: cmd.Args, Code: 1, Stderr: "Operation inhibited by \"apt\""}
			}
			return r.Run(ctx, cmd)
		}))
		assert.ErrorContains(t, err, "the host does not reboot")
		assert.ErrorContains(t, err, "inhibited")
	})
}

func TestNoProxmoxHost(t *testing.T) {
	_, err := hostprep.Observe(t.Context(), remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		_, err := cmd.Stdout.Write([]byte("\n@@ version\n\n@@ end\n"))
		return err
	}))
	require.ErrorContains(t, err, "it is not a Proxmox VE host")
	_, err = hostprep.Observe(t.Context(), remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		_, err := cmd.Stdout.Write([]byte("\n@@ version\npve-manager/9.0.3/x\n@@ pci"))
		return err
	}))
	assert.ErrorContains(t, err, "truncated")
}

func TestScripts(t *testing.T) {
	facts.Program(t, "shellcheck", "shellcheck")
	out, err := exec.CommandContext(t.Context(), "shellcheck", "observe.sh", "observe-access.sh", "testdata/proxmox-boot-tool.sh").CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestLookingChangesNothing: not a file, nor anything that is made of one.
func TestLookingChangesNothing(t *testing.T) {
	in(t, "systemd-boot", func(t *testing.T) {
		sim, r := root(t, fresh(func(h *pvesim.Host) { h.OS.Loader = "systemd-boot" }))
		_ = readOptional(t, r)
		_ = lookAt(t, access(), r)
		shell, err := sim.HostShell(t.Context(), "pve1")
		require.NoError(t, err)
		assert.NotEmpty(t, shell.Machine.Commands())
		assert.Empty(t, shell.Machine.Mutations())
	})
}
