package cluster_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// duo is a server and a worker with a card, on one host.
const duo = `
name: duo
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk: {count: 1, addresses: [10.0.0.21], gpus: 1}
`

func content(t testing.TB, m *guest.Machine, path string) string {
	t.Helper()
	b, err := m.Disk().ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// What is secret reaches the nodes on stdin alone, and changes when the file's
// environment does.
func TestRegistriesAndPassword(t *testing.T) {
	t.Setenv("REGISTRY_PASSWORD", "pa55-0f-registry")
	t.Setenv("CONSOLE_HASH", "$6$salt$f1rsthash")
	text := duo + `
ssh: {passwordHash: env:CONSOLE_HASH}
k3s:
  registries:
    docker.io: {endpoints: [https://mirror.home.arpa], username: pull, password: env:REGISTRY_PASSWORD}
`
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, text)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		for name, m := range w.guests() {
			assert.Contains(t, content(t, m, "/etc/rancher/k3s/registries.yaml"), "pa55-0f-registry", name)
			assert.Contains(t, content(t, m, "/etc/shadow"), "ubuntu:$6$salt$f1rsthash:", name)
			for _, c := range m.Commands() {
				assert.NotContains(t, strings.Join(c, " "), "pa55-0f", "an argument of %s", name)
				assert.NotContains(t, strings.Join(c, " "), "f1rsthash", "an argument of %s", name)
			}
		}
		assert.NotContains(t, w.output.String(), "pa55-0f")

		t.Setenv("REGISTRY_PASSWORD", "an0ther")
		t.Setenv("CONSOLE_HASH", "$6$salt$sec0ndhash")
		assert.ElementsMatch(t, []string{
			"password/cp1: password of ubuntu: different or not set → the one of the file", "password/wk1: password of ubuntu: different or not set → the one of the file",
			"k3s/cp1: registries.yaml: other contents → as configured (needs a restart)", "k3s/wk1: registries.yaml: other contents → as configured (needs a restart)",
		}, behindNone(w.plan(t, spec)))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))

		t.Setenv("CONSOLE_HASH", "plain text")
		_, err := w.cluster(t, spec).Up().Run(t.Context(), nil)
		require.ErrorContains(t, err, "env:CONSOLE_HASH contains no password hash")
		assert.NotContains(t, err.Error(), "plain text")
	})
}

// behindNone leaves out what only waits for another step.
func behindNone(plan []string) []string {
	var out []string
	for _, line := range plan {
		if !strings.Contains(line, ": after ") {
			out = append(out, line)
		}
	}
	return out
}

// fillK3s fills the folder k3s.airgap with a release of the simulated internet.
func fillK3s(t testing.TB, folder, version string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o700))
	for _, name := range []string{"k3s", "sha256sum-amd64.txt", "k3s-airgap-images-amd64.tar.zst"} {
		b, err := guest.DefaultInternet()("https://github.com/k3s-io/k3s/releases/download/" + strings.ReplaceAll(version, "+", "%2B") + "/" + name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), b, 0o600))
	}
}

// With a mirror, K3s and NVIDIA's container toolkit come from its folder, images from its registry and from the other nodes, and packages from that of
// the archive: only the host asks the internet, for the image of the operating system.
func TestAirgap(t *testing.T) {
	folder := t.TempDir()
	dir := filepath.Join(folder, "k3s")
	for _, name := range []string{dir, filepath.Join(folder, "charts")} {
		require.NoError(t, os.Mkdir(name, 0o700))
	}
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.sim.Close()
		var mu sync.Mutex
		var asked []string
		w.sim = pvesim.New(pvesim.OneGPU(), pvesim.Options{Kubernetes: w.kube, Internet: func(url string) ([]byte, error) {
			if archive, ours := strings.CutPrefix(url, "http://apt.home.arpa/"); ours || strings.HasPrefix(url, "https://cloud-images.ubuntu.com/") {
				return guest.DefaultInternet()(strings.Replace(url, "http://apt.home.arpa/"+archive, "http://archive.ubuntu.com/"+archive, 1))
			}
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, url)
			return nil, guest.ErrNotFound
		}})
		text := duo + "mirror: {registry: https://registry.home.arpa:5000, folder: " + folder + "}\nk3s: {embeddedRegistry: true}\nguest: {apt: {mirror: \"http://apt.home.arpa/ubuntu\"}}\n"
		spec := parse(t, text)
		_, err := w.cluster(t, spec).Up().Run(t.Context(), nil)
		require.ErrorContains(t, err, "(k3s.airgap) has no k3s: put it there from https://github.com/k3s-io/k3s/releases/download/")
		require.ErrorContains(t, err, ", or run homelab images:mirror, which fills it")
		require.ErrorContains(t, err, "nvidia has no nvidia-container-toolkit_1.20.1-1_amd64.deb: put it there from https://nvidia.github.io/")
		assert.Empty(t, w.mutations(), "seen before anything is made")

		w.toolkit = fillToolkit(t, filepath.Join(folder, "nvidia"))
		fillK3s(t, dir, spec.K3s.Version)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		for name, m := range w.guests() {
			assert.False(t, m.Disk().Exists("/var/lib/rancher/homelab.airgap"), name)
			assert.False(t, m.Disk().Exists("/etc/apt/sources.list.d/nvidia-container-toolkit.list"), name)
			assert.True(t, m.Disk().Exists("/usr/bin/nvidia-container-runtime"), "of the template")
			assert.Contains(t, content(t, m, "/etc/rancher/k3s/registries.yaml"), "https://registry.home.arpa:5000", name)
			assert.Contains(t, content(t, m, "/etc/rancher/k3s/config.yaml"), "disable-default-registry-endpoint: true", name)
			assert.Equal(t, name == "cp1", strings.Contains(content(t, m, "/etc/rancher/k3s/config.yaml"), "embedded-registry: true"), name)
		}

		moved := parse(t, replace(t, text, ":5000", ":5001"))
		assert.ElementsMatch(t, []string{"k3s/cp1: registries.yaml: other contents → as configured (needs a restart)",
			"k3s/wk1: registries.yaml: other contents → as configured (needs a restart)"}, behindNone(w.plan(t, moved)))
		w.up(t, moved)
		assert.Empty(t, w.plan(t, moved))
		assert.Empty(t, asked, "of the internet")
	})
}

// The card's audio function stays with the host where the file says so.
func TestGPUWithoutItsOtherFunctions(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, strings.Replace(duo, "gpus: 1", "gpus: {count: 1, allFunctions: false}", 1))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, []string{"0000:01:00.0"}, w.vm(t, "wk1").PCI)
		spec = parse(t, duo)
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "functions: the GPUs alone → all of each card")
	})
}

func TestNodesWithDHCP(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, strings.Replace(duo, "wk: {count: 1, addresses: [10.0.0.21], gpus: 1}", "wk: {count: 2, network: {dhcp: true}}", 1))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		for _, name := range []string{"wk1", "wk2"} {
			assert.True(t, netip.MustParsePrefix("10.0.0.192/26").Contains(w.nodes(t)[name].InternalIP), w.nodes(t)[name].InternalIP)
		}
	})
}

// external is a machine that somebody else made: it has our login, and no cluster.
func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func (w *world) external(t testing.TB, addr string) *guest.Machine {
	t.Helper()
	return w.externalOf(t, addr, "amd64")
}

// externalOf is external with another architecture, or with cards.
func (w *world) externalOf(t testing.TB, addr, arch string, cards ...guest.PCI) *guest.Machine {
	t.Helper()
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	doc, err := cloudinit.RenderWorker(cloudinit.Machine{
		Hostname: "edge", User: "ops", AuthorizedKeys: []string{ssh.AuthorizedKey(signer.PublicKey())},
		MAC: "bc:24:11:00:00:01", Address: mustPrefix(addr + "/24"), Gateway: mustPrefix(addr + "/24").Masked().Addr().Next(),
	})
	require.NoError(t, err)
	iso, err := doc.ISO()
	require.NoError(t, err)
	m := guest.New(guest.Config{
		Name: "edge", VMID: 9000, Arch: arch, Disk: guest.NewBase("noble"), MACs: []string{"bc:24:11:00:00:01"}, CPUs: 4, Memory: 8 << 30,
		Disks: []guest.BlockDevice{{Serial: "os", Size: 50 << 30}}, Network: w.sim.Network(), Internet: guest.DefaultInternet(), Kubernetes: w.kube, PCI: cards,
		Seed: func() ([]byte, error) { return iso, nil },
	})
	require.NoError(t, m.Boot(t.Context()))
	time.Sleep(5 * time.Minute)
	return m
}

func TestExternalNode(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		m := w.external(t, "10.0.0.40")
		defer m.Kill()
		spec := parse(t, duo+"nodes:\n  edge: {external: ops@10.0.0.40, labels: {example.com/site: roof}}\n")

		// Its host key is not believed, whoever says so.
		_, err := w.cluster(t, spec).Up().Run(t.Context(), nil)
		require.ErrorContains(t, err, `its host key is not known: log in once with ssh, which shows its fingerprint and asks, or put a line with "10.0.0.40" and the contents of its /etc/ssh/ssh_host_ed25519_key.pub into `)

		f, err := os.OpenFile(filepath.Join(w.dir, "known_hosts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = fmt.Fprintf(f, "10.0.0.40 %s\n", strings.TrimSpace(content(t, m, "/etc/ssh/ssh_host_ed25519_key.pub")))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, "roof", w.nodes(t)["edge"].Labels["example.com/site"])
		assert.NotContains(t, w.names(), "edge", "no VM is made")

		w.down(t, spec)
		assert.True(t, m.Running(), "it is not ours to switch off")
		assert.False(t, m.Disk().Exists("/usr/local/bin/k3s"))
		known, err := os.ReadFile(filepath.Join(w.dir, "known_hosts"))
		require.NoError(t, err)
		assert.Contains(t, string(known), "10.0.0.40 ", "its key was given, not found")
	})
}

// Pods share the GPUs of one node in the cluster's way, and of another in its own.
func TestSharing(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, strings.Replace(duo, "wk: {count: 1, addresses: [10.0.0.21], gpus: 1}", "wk: {count: 2, addresses: [10.0.0.21-10.0.0.22], gpus: 2}", 1)+`
nvidia: {sharing: {strategy: time-slicing, replicas: 4}}
nodes:
  wk2: {gpus: {sharing: {strategy: none}}}
`)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		nodes := w.nodes(t)
		assert.EqualValues(t, 8, nodes["wk1"].Count("nvidia.com/gpu"))
		assert.EqualValues(t, 2, nodes["wk2"].Count("nvidia.com/gpu"))

		c := w.cluster(t, spec)
		graph, v := c.GPUVerify(cluster.VerifyQuick, 0)
		_, err := graph.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		var got []string
		for _, r := range v.Results() {
			got = append(got, r.Node+": "+r.Note)
		}
		assert.Equal(t, []string{"wk1: one of 8 shares (time-slicing); the node has 2 GPUs, the others were not tested", "wk2: ", "wk2: "}, got)
	})
}

// The NUMA nodes of the file are those of the VM; other ones wait for its next start.
func TestNUMANodesOfTheFile(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := strings.Replace(duo, "gpus: 1}", `cores: 4, memory: 8GiB, numa: true,
    numaNodes: [{cpus: 0-1, memory: 4GiB, hostNodes: "0", policy: preferred}, {cpus: "2,3", memory: 4GiB, hostNodes: "1"}]}`, 1)
		w.up(t, parse(t, text))
		assert.Empty(t, w.plan(t, parse(t, text)))
		config := w.vm(t, "wk1").Config
		assert.Equal(t, "cpus=0-1,hostnodes=0,memory=4096,policy=preferred", config["numa0"])
		assert.Equal(t, "cpus=2;3,hostnodes=1,memory=4096,policy=bind", config["numa1"])

		other := strings.Replace(text, "policy: preferred", "policy: interleave", 1)
		assert.Contains(t, strings.Join(w.plan(t, parse(t, other)), "\n"),
			"policy=preferred → cpus=0-1,hostnodes=0,memory=4096,policy=interleave (needs a restart)")
		w.up(t, parse(t, duo))
		assert.NotContains(t, w.vm(t, "wk1").Config, "numa0")
	})
}
