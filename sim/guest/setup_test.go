package guest

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/cloud"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
	"github.com/cps-gpu/homelab/sim/iso"
)

const (
	testMAC  = "BC:24:11:AA:00:21"
	testAddr = "10.0.0.21"
)

// Where K3s has its files.
const (
	k3sEtc       = "/etc/rancher/k3s"
	k3sServerDir = "/var/lib/rancher/k3s/server"
	manifestsDir = k3sServerDir + "/manifests"
)

// aptFailed is apt-get's exit status for everything that goes wrong.
const aptFailed = 100

const testNetwork = `version: 2
ethernets:
  eth0:
    match: {macaddress: "bc:24:11:aa:00:21"}
    set-name: eth0
    addresses: [10.0.0.21/24]
    routes: [{to: default, via: 10.0.0.1}]
`

const testUser = `#cloud-config
hostname: wk-gpu1
users:
  - name: admin
    shell: /bin/bash
    groups: [adm, sudo]
    sudo: "ALL=(ALL) NOPASSWD:ALL"
    ssh_authorized_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8qEhn0W2aE0lcXOvJHcqyqGjTRW9aTfGHLnrJWYlgd admin@example"]
`

func seedISO(t testing.TB, user, meta, network string) func() ([]byte, error) {
	t.Helper()
	files := map[string][]byte{"user-data": []byte(user), "meta-data": []byte(meta)}
	if network != "" {
		files["network-config"] = []byte(network)
	}
	disc, err := iso.Write("cidata", files)
	require.NoError(t, err)
	return func() ([]byte, error) { return disc, nil }
}

// config is a machine with everything plugged in.
func config(t testing.TB, user string) machine.Config {
	return machine.Config{
		Name: "wk-gpu1", VMID: 104, Disk: image.New("noble"), MACs: []string{testMAC}, CPUs: 4, Memory: 8 << 30,
		Disks: []machine.BlockDevice{{Serial: "os", Size: 32 << 30}, {Serial: "scratch", Links: []string{"scsi-0QEMU_QEMU_HARDDISK_scratch"}, Size: 100 << 30}},
		PCI:   []machine.PCI{{Address: "0000:01:00.0", Host: "0000:41:00.0", Vendor: gpu.Vendor, Device: 0x20f1, SubVendor: gpu.Vendor, SubDevice: 0x145f, Class: 0x030200, Model: "NVIDIA A100-PCIE-40GB"}},
		Seed:  seedISO(t, user, "instance-id: wk-gpu1-1\nlocal-hostname: wk-gpu1\n", testNetwork), Network: &network.Network{}, Internet: internet.Default(),
	}
}

// start boots a machine and waits until cloud-init has ended.
func start(t testing.TB, cfg machine.Config) *Machine {
	t.Helper()
	m := New(cfg)
	require.NoError(t, m.Boot(t.Context()))
	t.Cleanup(m.Kill)
	settle(t, m)
	return m
}

func settle(t testing.TB, m *Machine) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := m.core.System()
		if s == nil {
			return false
		}
		status := cloud.Status(s)
		return status != "" && status != "running"
	}, scaled(m, 5*time.Minute), scaled(m, time.Second), "cloud-init does not end")
}

// scaled is a duration of the simulated world on the clock.
func scaled(m *Machine, d time.Duration) time.Duration {
	return time.Duration(float64(d) / m.core.Config.Speed)
}

// shell runs a command line as a user's login shell does.
func shellAs(m *Machine, user, command string) (code int, out string) {
	return shellWith(m, user, command, "")
}

func shellWith(m *Machine, user, command, stdin string) (code int, out string) {
	var b bytes.Buffer
	s := m.core.System()
	if s == nil {
		return -1, machine.ErrOff.Error()
	}
	code = s.Login(s.Context(), user, command, strings.NewReader(stdin), &b, &b)
	return code, b.String()
}

func mustShell(t testing.TB, m *Machine, command string) string {
	t.Helper()
	code, out := shellAs(m, "root", command)
	require.Zero(t, code, "%s: %s", command, out)
	return out
}

// fakePlanes are control planes that write down what is asked of them.
type fakePlanes struct {
	mu     sync.Mutex
	planes []*fakePlane
}

func (f *fakePlanes) Form(_ context.Context, cfg plane.Config) (plane.Plane, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &fakePlane{cfg: cfg, nodes: map[string]plane.Node{}}
	f.planes = append(f.planes, p)
	return p, nil
}

func (f *fakePlanes) all() []*fakePlane {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*fakePlane(nil), f.planes...)
}

type fakePlane struct {
	cfg plane.Config

	mu        sync.Mutex
	nodes     map[string]plane.Node
	left      []string
	manifests []string
	closed    bool
}

func (p *fakePlane) Join(_ context.Context, n plane.Node) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[n.Name] = n
	return nil
}

func (p *fakePlane) Leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, name)
}

func (p *fakePlane) Apply(_ context.Context, manifest []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.manifests = append(p.manifests, string(manifest))
	return nil
}

func (p *fakePlane) Dial(context.Context) (net.Conn, error) {
	a := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: k3s.APIPort}
	near, far := network.Pipe(a, a)
	_, _ = far.Write([]byte("the API server\n"))
	_ = far.Close()
	return near, nil
}

func (p *fakePlane) Kubeconfig(server string) []byte {
	return []byte("apiVersion: v1\nkind: Config\nclusters: [{name: default, cluster: {server: \"" + server + "\", certificate-authority-data: Y2E=}}]\n")
}

func (p *fakePlane) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

func (p *fakePlane) node(name string) (plane.Node, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.nodes[name]
	return n, ok
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func contains(t testing.TB, journal []string, part string) {
	t.Helper()
	assert.Contains(t, strings.Join(journal, "\n"), part)
}
