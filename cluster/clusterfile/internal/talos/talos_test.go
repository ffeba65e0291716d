package talos_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/talos"
	"github.com/cps-gpu/homelab/cluster/spec"
)

const file = `
name: home
distribution: talos
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
talos: {TALOS}
k3s: {snapshots: {recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  gpu1: {role: agent, address: 10.0.0.21, gpus: {count: 1}}
`

// TestTalos: what a short file gets, and what each key of the section does.
func TestTalos(t *testing.T) {
	read := func(section string) (*spec.Spec, error) {
		return clusterfile.Parse("cluster.yaml", []byte(strings.ReplaceAll(file, "TALOS", section)))
	}
	s, err := read("")
	require.NoError(t, err)
	assert.Equal(t, spec.TalosLinux{Version: talos.DefaultVersion, Kubernetes: talos.DefaultKubernetes, Driver: spec.TalosProduction}, s.Talos)
	assert.Equal(t, talos.DefaultKubernetes, s.K3s.Version)
	assert.Equal(t, spec.DriverNone, s.NVIDIA.DriverMode, "nobody installs a driver")
	for _, n := range s.Nodes {
		assert.NotNil(t, n.Boot)
		assert.False(t, n.FromTemplate())
	}
	s, err = read("version: v1.13.2, kubernetes: v1.35.3, driver: lts")
	require.NoError(t, err)
	assert.Equal(t, spec.TalosLinux{Version: "v1.13.2", Kubernetes: "v1.35.3", Driver: spec.TalosLTS}, s.Talos)
	_, err = clusterfile.Parse("cluster.yaml", []byte(strings.Replace(file, "distribution: talos", "distribution: k3s", 1)))
	require.ErrorContains(t, err, "6:1: the machines do not run Talos")
	for section, want := range map[string]string{
		"version: v1.12.0":    `"v1.12.0" is not a release of Talos 1.13`,
		"kubernetes: v1.37.0": `"v1.37.0" is not a release of Kubernetes that Talos 1.13 runs`,
		"driver: 580":         "driver",
	} {
		_, err := read(section)
		assert.ErrorContains(t, err, want)
	}
}

// TestRefused: each setting that a Talos machine cannot have is named, with its place.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"[age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]", "[]", "nobody could decrypt it once the API token is gone"},
		{"nodes:", "tls: {source: ca, ca: ../../testdata/ca.pem, key: env:KEYS_OTHER}\nlogin: {hostname: login.lab.example, clusterRoles: {staff: view}, people: {ada: {email: ada@lab.example, hash: env:KEYS_OTHER}}}\nnodes:",
			"the API server of Talos does not get this authority"},
		{"k3s: {", "k3s: {version: v1.36.5+k3s1, ", "7:16: a Talos cluster has no release of K3s"},
		{"k3s: {", "k3s: {server: {debug: true}, ", "only K3s has it"},
		{"k3s: {", "k3s: {secretsEncryption: false, ", "Talos always encrypts Secrets"},
		{"k3s: {", "k3s: {flannelBackend: host-gw, ", "Talos' flannel knows vxlan alone"},
		{"k3s: {", "guest: {packages: [htop]}\nk3s: {", "neither a shell nor packages"},
		{"k3s: {", "image: debian-13\nk3s: {", "boots Talos' own image"},
		{"k3s: {", "nvidia: {driver: {branch: 580-server}}\nk3s: {", "write talos: {driver: production}, or lts"},
		{"count: 1", "count: 1, sharing: {strategy: mig}", "divides GPUs"},
		{"role: server,", "role: server, disks: {data: {size: 10GiB}},", "further disks"},
		{"role: server,", "role: server, adopt: true,", "homelab makes the VM"},
	} {
		require.Contains(t, file, c.old)
		text := strings.Replace(strings.ReplaceAll(file, "TALOS", "version: v1.13.7"), c.old, c.new, 1)
		_, err := clusterfile.Parse("cluster.yaml", []byte(text))
		assert.ErrorContains(t, err, c.want)
	}
}
