package pvesim

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
)

// worker makes VM 201 from the template, with a seed that gives it an address
// and the guest agent.
func (c *caller) worker() {
	c.t.Helper()
	seed, err := iso.Write("cidata", map[string][]byte{
		"meta-data": []byte("instance-id: wk1-1\nlocal-hostname: wk1\n"),
		"user-data": []byte("#cloud-config\nhostname: wk1\npackages: [qemu-guest-agent]\nruncmd:\n- [systemctl, enable, --now, qemu-guest-agent]\n"),
		"network-config": []byte("version: 2\nethernets:\n  eth0:\n    match: {macaddress: \"bc:24:11:00:02:01\"}\n    set-name: eth0\n" +
			"    addresses: [10.0.0.21/24]\n    routes: [{to: default, via: 10.0.0.1}]\n    nameservers: {addresses: [10.0.0.1]}\n"),
	})
	require.NoError(c.t, err)
	require.Equal(c.t, "OK", c.wait(c.upload("local", "iso", "wk1.iso", seed)))
	require.Equal(c.t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201", "name", "wk1")))
	c.do("POST", "/cluster/mapping/pci", "id", "gpu", "map", entry("0000:01:00.0", "21"))
	require.Equal(c.t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/201/config", "ide2", "local:iso/wk1.iso,media=cdrom",
		"net0", "virtio=BC:24:11:00:02:01,bridge=vmbr0", "hostpci0", "mapping=gpu,pcie=1", "scsi1", "vmdata:100,serial=data")))
	require.Equal(c.t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/201/status/start")))
}

func (c *caller) agentUp(within time.Duration) bool {
	for began := time.Now(); time.Since(began) < within; time.Sleep(time.Second) {
		if c.do("POST", "/nodes/pve1/qemu/201/agent/ping").status == 200 {
			return true
		}
	}
	return false
}

// run runs a command through the guest agent.
func (c *caller) run(argv ...string) map[string]any {
	c.t.Helper()
	var kv []string
	for _, a := range argv {
		kv = append(kv, "command", a)
	}
	r := c.do("POST", "/nodes/pve1/qemu/201/agent/exec", kv...)
	require.Equal(c.t, 200, r.status, r.reason)
	pid := strconv.Itoa(int(r.object()["pid"].(float64)))
	for {
		st := c.do("GET", "/nodes/pve1/qemu/201/agent/exec-status", "pid", pid).object()
		if st["exited"] != 0.0 {
			again := c.do("GET", "/nodes/pve1/qemu/201/agent/exec-status", "pid", pid)
			assert.Contains(c.t, again.reason, "Agent error: PID", "an end is told once")
			return st
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestAGuestLives(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		c.worker()
		began := time.Now()
		r := c.do("POST", "/nodes/pve1/qemu/201/agent/ping")
		assert.Equal(t, "500 QEMU guest agent is not running", strconv.Itoa(r.status)+" "+r.reason)
		assert.Equal(t, 3*time.Second+s.state.Options.Timing.Call, time.Since(began))
		require.True(t, c.agentUp(5*time.Minute))

		assert.Equal(t, "wk1\n", c.run("hostname")["out-data"])
		st := c.run("sh", "-c", `printf 'ä'; echo no >&2; exit 3`)
		assert.Equal(t, []any{3.0, "Ã¤", "no\n"}, []any{st["exitcode"], st["out-data"], st["err-data"]}, "bytes come as Latin-1")
		assert.Contains(t, c.run("sh", "-c", "cat /sys/bus/pci/devices/*/device")["out-data"], "0x20f1")
		assert.Contains(t, c.do("GET", "/nodes/pve1/qemu/201/agent/network-get-interfaces").body, "10.0.0.21")
		assert.Equal(t, "wk1", c.do("GET", "/nodes/pve1/qemu/201/agent/get-host-name").object()["result"].(map[string]any)["host-name"])
		r = c.do("GET", "/nodes/pve1/qemu/201/agent/file-read", "file", "/etc/hostname")
		assert.Equal(t, "wk1\n", r.object()["content"])
		r = c.do("GET", "/nodes/pve1/qemu/201/agent/file-read", "file", "/nope")
		assert.Contains(t, r.reason, "No such file or directory")
		r = c.do("POST", "/nodes/pve1/qemu/201/agent/file-write", "file", "/root/x", "content", "aGk=", "encode", "0")
		require.Equal(t, 200, r.status, r.reason)
		assert.Equal(t, "hi", c.run("cat", "/root/x")["out-data"])
		r = c.do("POST", "/nodes/pve1/qemu/201/agent/exec", "command", "no-such-program")
		assert.Equal(t, "596 Broken pipe", strconv.Itoa(r.status)+" "+r.reason)

		conn, err := s.Network().Dial(t.Context(), "tcp", "10.0.0.21:22")
		require.NoError(t, err)
		require.NoError(t, conn.Close())

		c.run("systemctl", "reboot", "--no-block")
		time.Sleep(time.Minute)
		assert.True(t, s.VMs()[2].Running, "a reboot from inside does not end it")
		require.True(t, c.agentUp(time.Minute))
		assert.Equal(t, "hi", c.run("cat", "/root/x")["out-data"], "the disk remembers")
		c.do("POST", "/nodes/pve1/qemu/201/agent/exec", "command", "poweroff")
		time.Sleep(time.Minute)
		assert.False(t, s.VMs()[2].Running, "a guest can switch itself off")
		assert.Empty(t, s.state.VMs[201].PCI)
		assert.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/201", "purge", "1")))
	})
}

func TestGuestFaults(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		s.Fail(Rule{Path: ".*/201/status/start", Guest: &guest.Faults{AgentNeverAnswers: true}})
		c.worker()
		assert.False(t, c.agentUp(3*time.Minute))
		s.SetGuestFaults(201, guest.Faults{})
		assert.True(t, c.agentUp(3*time.Minute))
	})
}

func TestAShutdownThatTheGuestIgnores(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		s.Fail(Rule{Path: ".*/201/status/start", Guest: &guest.Faults{NeverBoots: true}})
		c.worker()
		assert.Equal(t, "VM quit/powerdown failed - got timeout", c.wait(c.do("POST", "/nodes/pve1/qemu/201/status/shutdown", "timeout", "20")))
		assert.True(t, s.state.VMs[201].Running)
		assert.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/201/status/shutdown", "timeout", "20", "forceStop", "1")))
		assert.False(t, s.state.VMs[201].Running)
	})
}
