package guest

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

func TestBootTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, testUser)
		m := New(cfg)
		began := time.Now()
		require.NoError(t, m.Boot(t.Context()))
		defer m.Kill()
		assert.ErrorContains(t, m.Boot(t.Context()), "already running")
		var up time.Duration
		for up == 0 {
			c, err := cfg.Network.Dial(t.Context(), "tcp", testAddr+":22")
			if err == nil {
				up = time.Since(began)
				_ = c.Close()
			}
			time.Sleep(100 * time.Millisecond)
		}
		assert.InDelta(t, 12, up.Seconds(), 1)
		settle(t, m)
		assert.Equal(t, "wk-gpu1", m.Hostname())
	})
}

func TestPoweroffAndReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, testUser)
		var told []bool
		cfg.OnPoweroff = func(reboot bool) { told = append(told, reboot) }
		m := start(t, cfg)
		id := mustShell(t, m, "cat /etc/machine-id /proc/sys/kernel/random/boot_id /etc/ssh/ssh_host_ed25519_key.pub")
		mustShell(t, m, "echo kept > /opt/f; echo gone > /run/f; reboot")
		time.Sleep(30 * time.Second)
		settle(t, m)
		after := mustShell(t, m, "cat /etc/machine-id /proc/sys/kernel/random/boot_id /etc/ssh/ssh_host_ed25519_key.pub")
		assert.Equal(t, strings.Fields(id)[0], strings.Fields(after)[0])
		assert.NotEqual(t, strings.Fields(id)[1], strings.Fields(after)[1], "boot id")
		assert.Equal(t, strings.Fields(id)[3], strings.Fields(after)[3], "host key")
		code, out := shellAs(m, "root", "cat /opt/f /run/f")
		assert.Equal(t, "kept\ncat: /run/f: No such file or directory\n", out)
		assert.Equal(t, 1, code)
		require.NoError(t, m.Shutdown())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.False(t, m.Running())
		assert.Equal(t, []bool{true, false}, told)
		assert.ErrorIs(t, m.Shutdown(), machine.ErrOff)
		_, err := cfg.Network.Dial(t.Context(), "tcp", testAddr+":22")
		assert.ErrorContains(t, err, "timed out", "the address was there before")
	})
}

func TestKillLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(config(t, testUser))
		for _, after := range []time.Duration{0, time.Second, 7 * time.Second, 12 * time.Second, time.Minute} {
			require.NoError(t, m.Boot(t.Context()))
			time.Sleep(after)
			if s := m.core.System(); after > time.Minute/2 {
				go s.Login(s.Context(), "root", "sleep infinity", strings.NewReader(""), nil, nil)
			}
			m.Kill()
			synctest.Wait()
			assert.False(t, m.Running())
			assert.Nil(t, m.core.Config.Network.Host(addr(testAddr)))
		}
	}) // synctest fails where a goroutine is left
}

// TestIdleGuestHasNoGoroutine holds guests to what a lab of a thousand needs.
func TestIdleGuestHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, "#cloud-config\npackages: [qemu-guest-agent]\n")
		m := start(t, cfg)
		synctest.Wait()
		assert.True(t, m.AgentUp())
		s := m.core.System()
		done := make(chan struct{})
		go func() { s.Wait(); close(done) }()
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("an idle guest keeps a goroutine")
		}
	})
}

func TestNoSeedNoLogin(t *testing.T) {
	for name, change := range map[string]func(*machine.Config){
		"no disc":    func(c *machine.Config) { c.Seed = nil },
		"not an ISO": func(c *machine.Config) { c.Seed = func() ([]byte, error) { return make([]byte, 4096), nil } },
		"no drive":   func(c *machine.Config) { c.Seed = func() ([]byte, error) { return nil, errors.New("gone") } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(t, testUser)
				change(&cfg)
				m := start(t, cfg)
				code, out := shellAs(m, "root", "cloud-init status --format json")
				assert.Zero(t, code)
				assert.Contains(t, out, `"status": "disabled"`)
				assert.Nil(t, disk.FindUser(m.core.System().Root(), "admin"))
				_, err := cfg.Network.Dial(t.Context(), "tcp", testAddr+":22")
				assert.ErrorContains(t, err, "no route to host")
			})
		})
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, testUser+"packages: [qemu-guest-agent]\n")
		cfg.Faults = machine.Faults{AgentNeverAnswers: true, SSHRefuses: true}
		m := start(t, cfg)
		assert.False(t, m.AgentUp())
		_, err := m.AgentExec([]string{"true"}, nil)
		assert.ErrorIs(t, err, ErrNoAgent)
		_, err = cfg.Network.Dial(t.Context(), "tcp", testAddr+":22")
		assert.ErrorContains(t, err, "connection refused")
		m.SetFaults(machine.Faults{})
		assert.True(t, m.AgentUp())
		c, err := cfg.Network.Dial(t.Context(), "tcp", testAddr+":22")
		require.NoError(t, err)
		_ = c.Close()
		m.Kill()
		m.SetFaults(machine.Faults{NeverBoots: true})
		require.NoError(t, m.Boot(t.Context()))
		time.Sleep(time.Hour)
		require.NoError(t, m.Shutdown(), "nobody hears the button")
		time.Sleep(time.Hour)
		assert.True(t, m.Running())
		m.Kill()
	})
}

func TestAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser+"packages: [qemu-guest-agent]\n"))
		pid, err := m.AgentExec([]string{"sh", "-c", "cat; echo err >&2; sleep 2; exit 7"}, []byte("in"))
		require.NoError(t, err)
		st, err := m.AgentStatus(pid)
		require.NoError(t, err)
		assert.False(t, st.Exited)
		time.Sleep(3 * time.Second)
		st, err = m.AgentStatus(pid)
		require.NoError(t, err)
		assert.Equal(t, ExecStatus{Exited: true, ExitCode: 7, Out: []byte("in"), Err: []byte("err\n")}, st)
		_, err = m.AgentStatus(pid)
		assert.ErrorIs(t, err, ErrNoProcess)
		_, err = m.AgentExec([]string{"nosuch"}, nil)
		assert.ErrorContains(t, err, "Failed to execute child process “nosuch” (No such file or directory)")
		require.NoError(t, m.AgentWriteFile("/opt/f", []byte("x")))
		data, err := m.AgentReadFile("/opt/f")
		require.NoError(t, err)
		assert.Equal(t, "x", string(data))
		ifaces, err := m.AgentInterfaces()
		require.NoError(t, err)
		require.Len(t, ifaces, 2)
		assert.Equal(t, "eth0", ifaces[1].Name)
		assert.Equal(t, strings.ToLower(testMAC), ifaces[1].MAC)
		assert.Equal(t, testAddr+"/24", ifaces[1].Addrs[0].String())
		m.Kill()
		_, err = m.AgentStatus(pid)
		assert.ErrorIs(t, err, machine.ErrOff)
	})
}

// TestSealAndClone is the life of a template: baked, cleaned, cloned.
func TestSealAndClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, "#cloud-config\nusers: []\npackages: [qemu-guest-agent]\n")
		m := start(t, cfg)
		require.False(t, sealed(cfg.Disk))
		mustShell(t, m, "cloud-init clean --logs --seed --machine-id && rm -f /etc/ssh/ssh_host_* && poweroff")
		time.Sleep(time.Minute)
		require.False(t, m.Running())
		require.True(t, sealed(cfg.Disk))
		seen := map[string]bool{}
		for range 2 {
			clone := config(t, testUser)
			clone.Disk = cfg.Disk.Clone()
			c := start(t, clone)
			require.True(t, c.AgentUp(), "the agent is in the template")
			for _, id := range strings.Fields(mustShell(t, c, "cat /etc/machine-id; cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub")) {
				assert.False(t, seen[id], "shared by clones: %s", id)
				seen[id] = true
			}
		}
		assert.True(t, sealed(cfg.Disk), "the template has not changed")
	})
}

func TestCloneOfAnUnsealedDiskSharesItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &network.Network{DHCP: netip.MustParsePrefix("10.0.0.0/24")}
		cfg := config(t, testUser)
		cfg.Network, cfg.Seed = net, seedISO(t, testUser, "instance-id: a\n", "version: 2\nethernets: {eth0: {match: {name: 'en*'}, dhcp4: true}}\n")
		a := start(t, cfg)
		a.Kill()
		clone := cfg
		clone.Disk = cfg.Disk.Clone()
		clone.Seed = seedISO(t, testUser, "instance-id: b\n", "")
		a, b := start(t, cfg), start(t, clone)
		assert.Equal(t, a.core.System().Address(), b.core.System().Address(), "one machine-id, one lease")
		assert.Equal(t, "10.0.0.100", a.core.System().Address().String())
	})
}

func TestMutations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		before := len(m.Mutations())
		for _, look := range []string{
			"cat /etc/hostname; ls -l /etc; systemctl is-active ssh; systemctl start ssh; systemctl enable ssh; cloud-init status --wait",
			"echo x >/dev/null; chmod 644 /etc/hostname; dpkg-query -W; echo y > /run/y; modprobe overlay; modprobe overlay",
		} {
			mustShell(t, m, look)
		}
		assert.Equal(t, []string{"module overlay loaded"}, m.Mutations()[before:])
		mustShell(t, m, "echo x > /etc/x; systemctl stop cron; apt-get update >/dev/null; apt-get -y install jq; apt-mark hold jq; rm /etc/x; systemctl disable cron")
		assert.Equal(t, []string{
			"file /etc/x", "unit cron.service stopped", "package jq 1.7.1-3ubuntu0.24.04.1 installed", "package jq hold", "file /etc/x", "unit cron.service disabled",
		}, m.Mutations()[before+1:])
	})
}

func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network.Network
		began := time.Now()
		_, err := n.Dial(t.Context(), "tcp", "10.0.0.9:22")
		assert.EqualError(t, err, "dial tcp 10.0.0.9:22: connect: no route to host")
		assert.Equal(t, 3*time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Dial(ctx, "tcp", "10.0.0.9:22")
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "the socket's deadline, as Go's dialer has it")
		_, err = n.Dial(t.Context(), "tcp", "somewhere:22")
		assert.ErrorContains(t, err, "no such host")
		_, err = n.Dial(t.Context(), "tcp", "10.0.0.9")
		assert.ErrorContains(t, err, "missing port")
	})
}

// A first boot whose power goes, at whatever second, goes on at the next one: what it had
// begun does not run again, and what it had not does (cloud-init's semaphores).
func TestAFirstBootThatIsCutGoesOn(t *testing.T) {
	for after := range 60 {
		synctest.Test(t, func(t *testing.T) {
			m := New(config(t, fullUser))
			require.NoError(t, m.Boot(t.Context()))
			time.Sleep(time.Duration(after) * time.Second)
			m.Kill()
			require.NoError(t, m.Boot(t.Context()))
			defer m.Kill()
			settle(t, m)
			for command, want := range map[string]string{
				"cat /etc/timezone":                                       "Europe/Berlin\n",
				"getent passwd admin | cut -d: -f1":                       "admin\n",
				"test -e /etc/ssh/ssh_host_ed25519_key.pub && echo there": "there\n",
			} {
				assert.Equal(t, want, mustShell(t, m, command), "%s after %d s", command, after)
			}
		})
	}
}

// sealed reports whether the disk is fit to be a template: no machine-id, no SSH
// host keys and no cloud-init instance that its clones would share.
func sealed(d *disk.Disk) bool {
	id, _ := d.ReadFile("/etc/machine-id")
	if s := strings.TrimSpace(string(id)); s != "" && s != "uninitialized" {
		return false
	}
	entries, _ := disk.ViewOf(d).ReadDir("/etc/ssh")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ssh_host_") {
			return false
		}
	}
	return !d.Exists("/var/lib/cloud/instance")
}
