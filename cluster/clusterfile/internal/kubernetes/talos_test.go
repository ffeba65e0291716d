package kubernetes_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
)

const file = `
name: home
distribution: talos
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
talos: {recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p], TALOS}
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
	assert.Equal(t, spec.TalosLinux{Version: "v1.13.7", Driver: spec.TalosProduction}, s.Talos)
	assert.Equal(t, "v1.36.2", s.K3s.Version)
	assert.True(t, s.Sealed)
	assert.Equal(t, "127.0.0.1:7445", s.NodeAPI().String())
	assert.Equal(t, spec.DriverNone, s.NVIDIA.DriverMode, "nobody installs a driver")
	for _, n := range s.Nodes {
		assert.NotNil(t, n.Boot)
		assert.False(t, n.FromTemplate())
	}
	s, err = read("version: v1.13.2, kubernetes: v1.35.3, driver: lts")
	require.NoError(t, err)
	assert.Equal(t, spec.TalosLinux{Version: "v1.13.2", Driver: spec.TalosLTS}, s.Talos)
	assert.Equal(t, "v1.35.3", s.K3s.Version)
	_, err = clusterfile.Parse("cluster.yaml", []byte(strings.Replace(file, "distribution: talos", "distribution: k3s", 1)))
	require.ErrorContains(t, err, "6:1: talos is configured, and does not run Kubernetes here")
	for section, want := range map[string]string{
		"version: v1.12.0":    `"v1.12.0" is not a release of Talos 1.13`,
		"kubernetes: v1.37.0": `"v1.37.0" is not a release of Kubernetes that Talos 1.13 runs`,
		"driver: 580":         "driver",
	} {
		_, err := read(section)
		assert.ErrorContains(t, err, want)
	}
}

// TestTalosSettings: the settings of talos are where those of K3s are, with their places, and its checks are theirs.
func TestTalosSettings(t *testing.T) {
	text := strings.Replace(file, ", TALOS", `, vip: 10.0.0.10, tlsSANs: [api.home.arpa], podCIDR: 10.44.0.0/16, serviceCIDR: 10.45.0.0/16,
  clusterDomain: home.arpa, cni: flannel, flannelBackend: none, network: fast, upgrade: {gpuPods: evict, wait: 5m},
  registries: {docker.io: {endpoints: ["https://r.home.arpa"], username: me, password: env:P, ca: talos.go, insecure: true}}`, 1)
	text = strings.NewReplacer("0.11}", "0.11, networks: {fast: {bridge: vmbr1, address: 10.9.0.11, prefix: 10.9.0.0/24}}}",
		"{count: 1}}", "{count: 1}, networks: {fast: {bridge: vmbr1, address: 10.9.0.21, prefix: 10.9.0.0/24}}}").Replace(text)
	s, err := clusterfile.Parse("cluster.yaml", []byte(strings.Replace(text, "cni: flannel, ", "", 1)))
	require.NoError(t, err)
	assert.Equal(t, spec.TalosLinux{Version: "v1.13.7", Driver: spec.TalosProduction}, s.Talos, "the rest is in K3s, recipients too")
	assert.Equal(t, spec.K3s{
		Version: "v1.36.2", Network: "fast", FlannelBackend: "none", Disable: s.K3s.Disable, SecretsEncryption: s.K3s.SecretsEncryption,
		Kubernetes: spec.Kubernetes{
			VIP: netip.MustParseAddr("10.0.0.10"), TLSSANs: []string{"api.home.arpa"}, ClusterDomain: "home.arpa",
			PodCIDR: spec.Ranges{netip.MustParsePrefix("10.44.0.0/16")}, ServiceCIDR: spec.Ranges{netip.MustParsePrefix("10.45.0.0/16")},
			Upgrade: spec.Upgrade{GPUPods: spec.GPUPodsEvict, Wait: 5 * time.Minute},
		},
		Snapshots: spec.Snapshots{Schedule: s.K3s.Snapshots.Schedule, Retention: s.K3s.Snapshots.Retention,
			Recipients: []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}},
		Registries: []spec.Registry{{Name: "docker.io", Endpoints: []string{"https://r.home.arpa"}, Username: "me", Password: s.K3s.Registries[0].Password,
			CAFile: s.K3s.Registries[0].CAFile, Insecure: true}},
	}, s.K3s)
	assert.Equal(t, "cluster.yaml:6:92", s.Places["vip"])
	assert.Equal(t, "talos.upgrade", s.KubernetesKey("upgrade"))
	_, err = clusterfile.Parse("cluster.yaml", []byte(text))
	require.ErrorContains(t, err, "the pod network is flannel, and flannel is disabled", "cni")
	_, err = clusterfile.Parse("cluster.yaml", []byte(strings.Replace(text, "endpoints:", "rewrite: {a: b}, endpoints:", 1)))
	require.ErrorContains(t, err, "Talos' mirrors rewrite no names")
}

// TestRefused: each setting that a Talos machine cannot have is named, with its place.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"[age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]", "[]", "nobody could decrypt it once the API token is gone"},
		{"nodes:", "tls: {source: ca, ca: ../../testdata/ca.pem, key: env:KEYS_OTHER}\nlogin: {hostname: login.lab.example, clusterRoles: {staff: view}, people: {ada: {email: ada@lab.example, hash: env:KEYS_OTHER}}}\nnodes:",
			"the API server of Talos does not get this authority"},
		{"nodes:", "k3s: {version: v1.36.5+k3s1}\nnodes:", "7:1: K3s is configured, and talos runs Kubernetes"},
		{"talos: {", "talos: {server: {debug: true}, ", `6:9: unknown key "server" in talos`},
		{"talos: {", "talos: {secretsEncryption: false, ", `unknown key "secretsEncryption"`},
		{"talos: {", "talos: {flannelBackend: host-gw, ", `6:25: flannelBackend cannot be "host-gw"`},
		{"talos: {", "talos: {podCIDR: 10.0.0.0/16, ", "6:18: pods (10.0.0.0/16) and nodes (10.0.0.0/24) share addresses; write talos.podCIDR"},
		{"talos: {", "talos: {tlsSANs: [a b], ", "6:19: "},
		{"talos: {", "talos: {upgrade: {wait: soon}, ", "6:25: "},
		{"[age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]", "[age1]", "6:22: "},
		{"talos: {", "guest: {packages: [htop]}\ntalos: {", "neither a shell nor packages"},
		{"talos: {", "image: debian-13\ntalos: {", "boots Talos' own image"},
		{"talos: {", "nvidia: {driver: {branch: 580-server}}\ntalos: {", "write talos: {driver: production}, or lts"},
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
