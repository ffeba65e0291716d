package guest

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/cloud"
)

const fullUser = `#cloud-config
hostname: named
manage_etc_hosts: true
timezone: Europe/Berlin
users:
  - default
  - name: admin
    shell: /bin/bash
    groups: [adm, sudo, extra]
    sudo: "ALL=(ALL) NOPASSWD:ALL"
    lock_passwd: false
    hashed_passwd: "$6$x$y"
    ssh_authorized_keys: [ssh-ed25519 AAAA a]
ssh_authorized_keys: [ssh-ed25519 BBBB b]
bootcmd:
  - echo early > /run/early
apt:
  http_proxy: http://10.0.0.30:3142
  https_proxy: DIRECT
  sources:
    nvidia-container-toolkit.list:
      source: "deb [signed-by=$KEY_FILE] https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /"
      key: |
        -----BEGIN PGP PUBLIC KEY BLOCK-----
        x
        -----END PGP PUBLIC KEY BLOCK-----
package_update: true
packages: [qemu-guest-agent, [nvidia-container-toolkit, 1.19.0-1], jq]
write_files:
  - {path: /etc/a, content: "a\n", permissions: "0600"}
  - {path: /etc/b, encoding: b64, content: Ygo=}
  - {path: /home/admin/d, content: d, owner: "admin:admin", defer: true}
  - {path: /etc/modules-load.d/k.conf, content: "overlay\n"}
runcmd:
  - [sh, -c, 'echo "$0 $1" > /run/args', a, 'b  c']
  - echo text | tr a-z A-Z > /var/text
`

func cloudInitStatus(t *testing.T, m *Machine) (out cloud.Answer, code int) {
	t.Helper()
	code, text := shellAs(m, "root", "cloud-init status --wait --format json")
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out, code
}

func TestCloudInitDoesWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, fullUser))
		out, code := cloudInitStatus(t, m)
		assert.Zero(t, code, out.Errors)
		assert.Equal(t, "done", out.Status)
		assert.Equal(t, "done", out.Extended)
		assert.Equal(t, "nocloud", out.Datasource)
		assert.Empty(t, out.Recoverable)
		for command, want := range map[string]string{
			"hostname; cat /etc/hosts | head -1; cat /etc/timezone":                                                    "named\n127.0.1.1 named\nEurope/Berlin\n",
			"getent passwd admin | cut -d: -f1,3,4; grep admin /etc/group | cut -d: -f1,3":                             "admin:1001:1001\nadm:4\nsudo:27\nadmin:1001\nextra:999\n",
			"sudo -n -u ubuntu sh -c 'echo $USER'; sudo -n -u ubuntu sudo -n sh -c 'echo $USER'":                       "ubuntu\nroot\n",
			"cat /home/ubuntu/.ssh/authorized_keys; stat -c '%U %a' /home/admin/.ssh /home/admin/.ssh/authorized_keys": "ssh-ed25519 BBBB b\nadmin 700\nadmin 600\n",
			"grep ^admin: /etc/shadow | cut -d: -f2":                                                                   "$6$x$y\n",
			"cat /run/early /run/args":                                                                                 "early\na b  c\n",
			"cat /etc/a /etc/b; stat -c %a /etc/a /etc/b":                                                              "a\nb\n600\n644\n",
			"stat -c '%U:%G %a' /home/admin/d":                                                                         "admin:admin 644\n",
			"cat /var/text":                                                                                            "TEXT\n",
			"dpkg-query -W -f '${Package} ${Version}\\n' 'nvidia-container-toolkit*' libnvidia-container1":             "nvidia-container-toolkit 1.19.0-1\nnvidia-container-toolkit-base 1.19.0-1\nlibnvidia-container1 1.19.0-1\n",
			"nvidia-container-runtime --version":                                                                       "NVIDIA Container Runtime version 1.19.0\n",
			"systemctl is-active qemu-guest-agent; systemctl is-enabled qemu-guest-agent":                              "active\nenabled\n",
			"cat /etc/apt/apt.conf.d/90cloud-init-aptproxy":                                                            "Acquire::http::Proxy \"http://10.0.0.30:3142\";\nAcquire::https::Proxy \"DIRECT\";\n",
		} {
			assert.Equal(t, want, mustShell(t, m, command), command)
		}
		mustShell(t, m, "rm /etc/a; echo again > /etc/b; reboot")
		time.Sleep(30 * time.Second)
		settle(t, m)
		assert.Equal(t, "again\nearly\n", mustShell(t, m, "cat /etc/b /run/early"), "per-instance modules ran once")
		assert.Equal(t, "overlay 16384 0 - Live 0x0000000000000000\n", mustShell(t, m, "grep overlay /proc/modules"))
		code, _ = shellAs(m, "root", "test -e /run/args")
		assert.Equal(t, 1, code, "runcmd is per instance")
	})
}

func TestNewInstanceRunsEverythingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, testUser+"runcmd: [echo x >> /etc/count]\n")
		m := start(t, cfg)
		key := mustShell(t, m, "cat /etc/ssh/ssh_host_ed25519_key.pub")
		m.Kill()
		cfg.Seed = seedISO(t, testUser+"runcmd: [echo x >> /etc/count]\n", "instance-id: other\n", strings.ReplaceAll(testNetwork, testAddr, "10.0.0.22"))
		m = start(t, cfg)
		assert.Equal(t, "x\nx\n", mustShell(t, m, "cat /etc/count"))
		assert.NotEqual(t, key, mustShell(t, m, "cat /etc/ssh/ssh_host_ed25519_key.pub"))
		assert.Equal(t, "10.0.0.22", m.core.System().Address().String())
		m.Kill()
		cfg.Seed = seedISO(t, strings.Replace(testUser, "hostname", "ssh_deletekeys: false\nhostname", 1), "instance-id: third\n", testNetwork)
		key = func() string { b, _ := cfg.Disk.ReadFile("/etc/ssh/ssh_host_ed25519_key.pub"); return string(b) }()
		m = start(t, cfg)
		assert.Equal(t, key, mustShell(t, m, "cat /etc/ssh/ssh_host_ed25519_key.pub"), "ssh_deletekeys: false keeps them")
	})
}

func TestCloudInitSaysWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, user, network string
		code                int
		status, says        string
	}{
		{"no header", "users: []\n", testNetwork, 2, "degraded done", "Unhandled non-multipart (text/x-not-multipart) userdata"},
		{"not YAML", "#cloud-config\na: [\n", testNetwork, 2, "degraded done", "Failed loading yaml blob"},
		{"file systems", "#cloud-config\nfs_setup: [{device: /dev/sdb}]\n", testNetwork, 1, "error - done", "fs_setup is not simulated"},
		{"unknown key", "#cloud-config\npackges: [jq]\n", testNetwork, 2, "degraded done", "'packges' was unexpected"},
		{"unknown package", "#cloud-config\npackages: [nosuch]\n", testNetwork, 1, "error - done", "Failed to install packages: E: Unable to locate package nosuch"},
		{"source without key", "#cloud-config\napt: {sources: {x: {source: 'deb [signed-by=/nokey] https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /'}}}\npackages: [nvidia-container-toolkit]\n",
			testNetwork, 1, "error - done", "Unable to locate package nvidia-container-toolkit"},
		{"failing runcmd", "#cloud-config\nruncmd: ['true', 'false']\n", testNetwork, 1, "error - done", "Runparts: 1 failures (runcmd)"},
		{"owner before its user", "#cloud-config\nusers: [{name: admin}]\nwrite_files: [{path: /x, content: a, owner: admin}]\n", testNetwork, 1, "error - done", "invalid user: 'admin'"},
		{"bad base64", "#cloud-config\nwrite_files: [{path: /x, content: '***', encoding: b64}]\n", testNetwork, 1, "error - done", "illegal base64"},
		{"network of version 1", "#cloud-config\n{}\n", "version: 1\nconfig: []\n", 1, "error - done", "network-config version 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(t, test.user)
				cfg.Seed = seedISO(t, test.user, "instance-id: i\n", test.network)
				m := start(t, cfg)
				out, code := cloudInitStatus(t, m)
				assert.Equal(t, test.code, code)
				assert.Equal(t, test.status, out.Extended)
				all := strings.Join(append(out.Errors, out.Recoverable["WARNING"]...), "\n")
				assert.Contains(t, all, test.says)
			})
		})
	}
}

func TestNetworkMatchesLikeNetplan(t *testing.T) {
	for name, test := range map[string]struct {
		match, mac string
		up         bool
	}{
		"lower case":       {`"bc:24:11:aa:00:21"`, testMAC, true},
		"upper case":       {`"BC:24:11:AA:00:21"`, testMAC, false},
		"digits in quotes": {`"02:24:11:22:00:21"`, "02:24:11:22:00:21", true},
		"another card's":   {`"bc:24:11:aa:00:99"`, testMAC, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(t, testUser)
				cfg.MACs = []string{test.mac}
				cfg.Seed = seedISO(t, testUser, "instance-id: i\n", strings.Replace(testNetwork, `"bc:24:11:aa:00:21"`, test.match, 1))
				m := start(t, cfg)
				assert.Equal(t, test.up, m.core.System().Address().IsValid())
			})
		})
	}
}

func TestStatusWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(config(t, testUser+"runcmd: [sleep 60]\n"))
		require.NoError(t, m.Boot(t.Context()))
		defer m.Kill()
		time.Sleep(15 * time.Second)
		code, out := shellAs(m, "root", "cloud-init status")
		assert.Equal(t, "status: running\n", out)
		assert.Zero(t, code)
		began := time.Now()
		code, out = shellAs(m, "root", "cloud-init status --wait")
		assert.Contains(t, out, "status: done")
		assert.Zero(t, code)
		assert.Greater(t, time.Since(began), 50*time.Second)
		code, out = shellAs(m, "root", "sleep 1 | cat")
		assert.Contains(t, out, "waiting in a pipeline")
		assert.Zero(t, code)
	})
}
