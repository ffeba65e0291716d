package guest

import (
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

const k3sURL = "https://github.com/k3s-io/k3s/releases/download/v1.34.2%2Bk3s1/k3s"

// lab is a network with machines that have K3s' binary.
type lab struct {
	t      *testing.T
	net    *network.Network
	planes *fakePlanes
}

func newLab(t *testing.T) *lab { return &lab{t: t, net: &network.Network{}, planes: &fakePlanes{}} }

// machine boots one with the last octet n; its name is "n<n>".
func (l *lab) machine(n int, change func(*machine.Config)) *Machine {
	l.t.Helper()
	cfg := config(l.t, "")
	cfg.Name, cfg.VMID, cfg.Network, cfg.Kubernetes, cfg.PCI = fmt.Sprintf("n%d", n), 100+n, l.net, l.planes, nil
	user := strings.Replace(testUser, "wk-gpu1", cfg.Name, 1)
	network := strings.Replace(testNetwork, testAddr, fmt.Sprintf("10.0.0.%d", n), 1)
	cfg.Seed = seedISO(l.t, user, fmt.Sprintf("instance-id: n%d\n", n), network)
	if change != nil {
		change(&cfg)
	}
	m := start(l.t, cfg)
	mustShell(l.t, m, "curl -fsSL -o /usr/local/bin/k3s "+k3sURL+" && chmod 755 /usr/local/bin/k3s && mkdir -p /etc/rancher/k3s")
	return m
}

// k3s writes the configuration and a unit, and starts it without waiting.
func (l *lab) k3s(m *Machine, role, config string) {
	l.t.Helper()
	unit := map[string]string{"server": "k3s", "agent": "k3s-agent"}[role]
	put(l.t, m, "/etc/rancher/k3s/config.yaml", config)
	put(l.t, m, "/etc/systemd/system/"+unit+".service", "[Service]\nType=notify\nExecStartPre=-/sbin/modprobe overlay\nExecStart=/usr/local/bin/k3s "+role+
		"\nRestart=always\nRestartSec=5s\n[Install]\nWantedBy=multi-user.target\n")
	mustShell(l.t, m, "systemctl daemon-reload; systemctl enable "+unit+"; systemctl start --no-block "+unit)
}

func put(t *testing.T, m *Machine, name, text string) {
	t.Helper()
	code, out := shellWith(m, "root", "mkdir -p "+path.Dir(name)+" && cat > "+name, text)
	require.Zero(t, code, out)
}

// form makes the first server, with kube-vip, and returns its token.
func (l *lab) form(m *Machine) string {
	l.t.Helper()
	put(l.t, m, manifestsDir+"/kube-vip.yaml", "kind: DaemonSet\nmetadata: {name: kube-vip}\nspec:\n  env:\n  - name: vip_arp\n    value: \"true\"\n  - name: address\n    value: 10.0.0.10\n")
	l.k3s(m, "server", "cluster-init: true\ntls-san: [10.0.0.10]\nservice-cidr: 10.99.0.0/16\n")
	time.Sleep(20 * time.Second)
	require.Equal(l.t, "active\n", mustShell(l.t, m, "systemctl is-active k3s"))
	return strings.TrimSpace(mustShell(l.t, m, "cat "+k3sServerDir+"/token"))
}

func TestK3sChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		first := l.machine(11, nil)
		token := l.form(first)
		assert.Regexp(t, `^K10[0-9a-f]{64}::server:\S+$`, token)
		require.Len(t, l.planes.all(), 1)
		plane := l.planes.all()[0]
		assert.Equal(t, "10.99.0.0/16", plane.cfg.ServiceCIDR.String())
		assert.Equal(t, "10.42.0.0/16", plane.cfg.PodCIDR.String())
		assert.Equal(t, []string{"n11", "10.0.0.11", "10.0.0.10"}, plane.cfg.TLSSANs)
		assert.Equal(t, "v1.34.2+k3s1", plane.cfg.Version)
		assert.Equal(t, "600 "+k3sEtc+"/k3s.yaml\n600 "+k3sServerDir+"/token\n", mustShell(t, first, "stat -c '%a %n' "+k3sEtc+"/k3s.yaml "+k3sServerDir+"/token"))
		assert.Equal(t, token+"\n", mustShell(t, first, "cat "+k3sServerDir+"/node-token"))
		require.Len(t, plane.manifests, 1)

		second, third, worker := l.machine(12, nil), l.machine(13, nil), l.machine(21, nil)
		for _, m := range []*Machine{second, third} {
			put(t, m, "/etc/rancher/k3s/token", token)
			l.k3s(m, "server", "server: https://10.0.0.10:6443\ntoken-file: /etc/rancher/k3s/token\nservice-cidr: 10.99.0.0/16\n")
		}
		put(t, worker, "/etc/rancher/k3s/token", token)
		l.k3s(worker, "agent", "server: https://10.0.0.10:6443\ntoken-file: /etc/rancher/k3s/token\nnode-label: [a=b, c=d]\nnode-taint: gpu=true:NoSchedule\n")
		time.Sleep(time.Minute)
		n, ok := plane.node("n21")
		require.True(t, ok, first.Journal("k3s"))
		assert.Equal(t, "agent", n.Role)
		assert.Equal(t, addr("10.0.0.21"), n.InternalIP)
		assert.Equal(t, map[string]string{"a": "b", "c": "d"}, n.Labels)
		assert.Equal(t, []string{"gpu=true:NoSchedule"}, n.Taints)
		assert.Len(t, plane.nodes, 4)

		c, err := l.net.Dial(t.Context(), "tcp", "10.0.0.10:6443")
		require.NoError(t, err)
		text, _ := io.ReadAll(c)
		assert.Equal(t, "the API server\n", string(text))
		_ = c.Close()
		_, err = l.net.Dial(t.Context(), "tcp", "10.0.0.21:6443")
		assert.ErrorContains(t, err, "connection refused", "an agent has no API server")

		l.fail(plane, first, second)
		mustShell(t, first, "echo 'kind: X' > "+manifestsDir+"/x.yaml; : >"+manifestsDir+"/y.yaml; : >"+manifestsDir+"/y.yaml.skip")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, "kind: X\n", plane.manifests[len(plane.manifests)-1])
		require.NoError(t, l.net.Close())
		assert.True(t, plane.closed)
	})
}

// A connection to an unused address ends with the network.
func TestClosedNetworkEndsDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, begun := &network.Network{}, time.Now()
		failed := make(chan error)
		go func() {
			_, err := net.Dial(t.Context(), "tcp", "10.0.0.9:22")
			failed <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, net.Close())
		require.ErrorIs(t, <-failed, syscall.ENETDOWN)
		_, err := net.Dial(t.Context(), "tcp", "10.0.0.9:22")
		require.ErrorIs(t, err, syscall.ENETDOWN)
		assert.Equal(t, time.Second, time.Since(begun))
	})
}

// fail takes two of three servers from a cluster, and brings one back.
func (l *lab) fail(plane *fakePlane, first, second *Machine) {
	l.t.Helper()
	first.Kill()
	assert.Equal(l.t, []string{"n11"}, plane.left)
	time.Sleep(20 * time.Second)
	assert.Nil(l.t, l.net.Host(addr("10.0.0.10")))
	time.Sleep(10 * time.Second)
	assert.NotNil(l.t, l.net.Host(addr("10.0.0.10")), "the VIP has moved")
	second.Kill()
	time.Sleep(time.Minute)
	_, err := l.net.Dial(l.t.Context(), "tcp", "10.0.0.13:6443")
	assert.ErrorContains(l.t, err, "connection refused", "one of three has no quorum")
	require.NoError(l.t, first.Boot(l.t.Context()))
	time.Sleep(time.Minute)
	c, err := l.net.Dial(l.t.Context(), "tcp", "10.0.0.13:6443")
	require.NoError(l.t, err)
	_ = c.Close()
	assert.Len(l.t, l.planes.all(), 1, "a server that comes back forms no second cluster")
}

// TestK3sRefuses holds the journal to K3s' own words (facts: facts/k3s.md).
func TestK3sRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		token := l.form(l.machine(11, nil))
		hash, _, _ := strings.Cut(token, "::")
		tests := []struct {
			name, role, config, says string
			active                   string
		}{
			{"agent, wrong token", "agent", "server: https://10.0.0.11:6443\ntoken: " + hash + "::server:wrong\n", "Waiting to retrieve agent configuration; server is not ready: failed to retrieve configuration from server: not authorized", "activating"},
			{"agent, another CA", "agent", "server: https://10.0.0.11:6443\ntoken: K10" + strings.Repeat("0", 64) + "::server:x\n", "token CA hash does not match the Cluster CA certificate hash", "activating"},
			{"agent, nobody there", "agent", "server: https://10.0.0.99:6443\ntoken: " + token + "\n", `failed to get CA certs: Get \"https://127.0.0.1:6444/cacerts\"`, "activating"},
			{"agent, no token", "agent", "server: https://10.0.0.11:6443\n", "Error: --token is required", "activating"},
			{"agent, a server's key", "agent", "server: https://10.0.0.11:6443\ntoken: x\ntls-san: [a]\n", "Error: flag provided but not defined: -tls-san", "activating"},
			{"server, wrong token", "server", "server: https://10.0.0.11:6443\ntoken: " + hash + "::server:wrong\n", "failed to bootstrap cluster data: not authorized", "activating"},
			{"server, other network", "server", "server: https://10.0.0.11:6443\ntoken: " + token + "\n", "critical configuration mismatched: ServiceIPRanges.slice", "activating"},
			{"runtime before the toolkit", "agent", "server: https://10.0.0.11:6443\ntoken: " + token + "\ndefault-runtime: nvidia\n", "default runtime nvidia was not found", "activating"},
		}
		for i, test := range tests {
			m := l.machine(30+i, nil)
			l.k3s(m, test.role, test.config)
			time.Sleep(30 * time.Second)
			unit := map[string]string{"server": "k3s", "agent": "k3s-agent"}[test.role]
			contains(t, m.Journal(unit), test.says)
			_, out := shellAs(m, "root", "systemctl is-active "+unit)
			assert.Equal(t, test.active+"\n", out, test.name)
			m.Kill()
		}
	})
}

func TestAgentWithoutHashIsWarned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		token := l.form(l.machine(11, nil))
		m := l.machine(21, nil)
		l.k3s(m, "agent", "server: https://10.0.0.11:6443\ntoken: "+token[strings.LastIndex(token, ":")+1:]+"\n")
		mustShell(t, m, "systemctl start k3s-agent") // blocks until it has joined
		contains(t, m.Journal("k3s-agent"), "the token does not include a CA hash")
		_, ok := l.planes.all()[0].node("n21")
		assert.True(t, ok)
	})
}

func TestSecondMachineOfANameIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		token := l.form(l.machine(11, nil))
		join := "server: https://10.0.0.11:6443\ntoken: " + token + "\nnode-name: wk\n"
		old := l.machine(21, nil)
		l.k3s(old, "agent", join)
		time.Sleep(30 * time.Second)
		old.Kill()
		anew := l.machine(22, nil)
		l.k3s(anew, "agent", join)
		time.Sleep(30 * time.Second)
		contains(t, anew.Journal("k3s-agent"), "Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry")
	})
}

func TestServerKeepsItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		m := l.machine(11, nil)
		l.form(m)
		put(t, m, "/etc/rancher/k3s/config.yaml", "cluster-init: true\nservice-cidr: 10.99.0.0/16\ntoken: another\nunknown-key: 1\n")
		code, out := shellAs(m, "root", "systemctl restart k3s")
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "Job for k3s.service failed because the control process exited with error code")
		contains(t, m.Journal("k3s"), "bootstrap data already found and encrypted with different token")
		contains(t, m.Journal("k3s"), "Unknown flag --unknown-key found in config.yaml, skipping")
	})
}

func TestClusterMadeAnewEndsTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		m := l.machine(11, nil)
		l.form(m)
		m.Kill()
		l.form(l.machine(11, nil))
		require.Len(t, l.planes.all(), 2)
		assert.True(t, l.planes.all()[0].closed)
		other := newLab(t)
		m = other.machine(11, nil)
		other.form(m)
		m.Kill()
		other.net.Forget(m.Disk())
		assert.True(t, other.planes.all()[0].closed)
	})
}

func TestNodeNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		m := l.machine(11, func(c *machine.Config) { c.Faults.NodeNeverReady = true })
		l.form(m)
		_, ok := l.planes.all()[0].node("n11")
		assert.False(t, ok)
	})
}

// TestGPUsNeedTheWholeChain is design.md's: driver, toolkit before the agent.
func TestGPUsNeedTheWholeChain(t *testing.T) {
	const toolkit = "apt: {sources: {t: {source: 'deb [signed-by=$KEY_FILE] https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /', key: '-----BEGIN PGP PUBLIC KEY BLOCK-----'}}}\n"
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.form(l.machine(11, nil))
		plane := l.planes.all()[0]
		worker := l.machine(21, func(c *machine.Config) {
			card := machine.PCI{Vendor: gpu.Vendor, Device: 0x20f1, Class: 0x030200}
			for i := range 2 {
				card.Address, card.Host = fmt.Sprintf("0000:0%d:00.0", i+1), fmt.Sprintf("0000:4%d:00.0", i)
				c.PCI = append(c.PCI, card)
			}
			c.Seed = seedISO(t, strings.Replace(driverUser(openDriver), "wk-gpu1", "n21", 1)+toolkit, "instance-id: n21\n", testNetwork)
		})
		time.Sleep(time.Minute) // the reboot into the new kernel
		settle(t, worker)
		secret := strings.TrimSpace(mustShell(t, l.net.Host(addr("10.0.0.11")).(*Machine), "cat "+k3sServerDir+"/token"))
		l.k3s(worker, "agent", "server: https://10.0.0.10:6443\ntoken: "+secret+"\n")
		time.Sleep(30 * time.Second)
		n, ok := plane.node("n21")
		require.True(t, ok, worker.Journal("k3s-agent"))
		assert.Empty(t, n.GPUs(), "no toolkit")
		mustShell(t, worker, "apt-get install -y nvidia-container-toolkit")
		n, _ = plane.node("n21")
		assert.Empty(t, n.GPUs(), "K3s has looked for it at its start only")
		mustShell(t, worker, "systemctl restart k3s-agent && grep -q nvidia-container-runtime /var/lib/rancher/k3s/agent/etc/containerd/config.toml")
		n, _ = plane.node("n21")
		cards := gpu.Cards(worker.core.Config.PCI)
		gpus := n.GPUs()
		require.Len(t, gpus, 2)
		assert.Equal(t, GPU{UUID: cards[1].UUID, Model: "NVIDIA A100-PCIE-40GB", Index: 1}, gpus[1])

		run := func(args []string, env map[string]string, count int) (int, string, string) {
			return n.Run(t.Context(), Container{Args: args, Env: env, GPUs: count, Files: map[string][]byte{
				"/verify/verify.sh": []byte("#!/bin/sh\nnvidia-smi -L | tee /dev/termination-log\nCUDA_VISIBLE_DEVICES=$1 /cuda-samples/vectorAdd | tail -n 2 | head -n 1\n"),
			}})
		}
		code, out, log := run([]string{"/bin/sh", "/verify/verify.sh", gpus[1].UUID}, map[string]string{"NVIDIA_VISIBLE_DEVICES": gpus[1].UUID}, 1)
		assert.Zero(t, code)
		assert.Equal(t, "GPU 0: NVIDIA A100-PCIE-40GB (UUID: "+gpus[1].UUID+")\nTest PASSED\n", out)
		assert.Equal(t, "GPU 0: NVIDIA A100-PCIE-40GB (UUID: "+gpus[1].UUID+")\n", log)
		code, out, _ = run([]string{"/cuda-samples/vectorAdd"}, map[string]string{"NVIDIA_VISIBLE_DEVICES": gpus[0].UUID, "CUDA_VISIBLE_DEVICES": gpus[1].UUID}, 1)
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "no CUDA-capable device is detected")
		code, out, _ = run([]string{"nvidia-smi"}, map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}, 0)
		assert.Equal(t, 128, code)
		assert.Contains(t, out, "nvidia-smi")
		code, _, _ = run([]string{"sh", "-c", "exit 3"}, nil, 0)
		assert.Equal(t, 3, code)
		worker.Kill()
		assert.Empty(t, n.GPUs())
		code, _, _ = run([]string{"true"}, nil, 0)
		assert.Equal(t, machine.ExitKilled, code)
	})
}
