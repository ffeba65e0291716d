package cluster_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/harvestersim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// onHarvester is a world with a Harvester beside its Proxmox VE, which nobody asks.
type onHarvester struct {
	*world
	hci *harvestersim.Sim
	tap func(http.RoundTripper) http.RoundTripper // around the way to Harvester; nil for none
}

func inHarvester(t *testing.T, test func(t *testing.T, w *onHarvester)) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		sim, err := harvestersim.New(t.Context(), harvestersim.Config{Network: w.sim.Network(), Kubernetes: w.kube})
		require.NoError(t, err)
		defer func() { assert.NoError(t, sim.Close()) }()
		require.NoError(t, sim.AddNetwork(t.Context(), "default", "vlan10"))
		for _, name := range []string{"harv1", "harv2"} {
			require.NoError(t, sim.AddNode(t.Context(), harvestersim.Node{Name: name, CPUs: 64, Memory: 512 << 30, PCI: []harvestersim.PCI{
				hciCard("0000:41:00.0", "41"), hciCard("0000:42:00.0", "42"),
			}}))
		}
		test(t, &onHarvester{world: w, hci: sim})
		assert.Empty(t, w.mutations(), "nobody asks Proxmox VE")
	})
}

func hciCard(address, group string) harvestersim.PCI {
	return harvestersim.PCI{
		PCI:      guest.PCI{Host: address, Vendor: 0x10de, Device: 0x20b5, Class: 0x030200},
		Resource: "nvidia.com/GA100_A100_PCIE_80GB", Description: "NVIDIA Corporation GA100 [A100 PCIe 80GB]", IOMMUGroup: group,
	}
}

func (w *onHarvester) client(t testing.TB, of *spec.Spec) *harvester.Client {
	t.Helper()
	k, err := kube.New(kube.Config{Kubeconfig: w.hci.Kubeconfig(), Wrap: w.tap,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.hci.Dial(ctx) }})
	require.NoError(t, err)
	return harvester.New(k, of.Harvester.Namespace, of.Name)
}

func (w *onHarvester) bind(t testing.TB, of *spec.Spec) *cluster.Cluster {
	t.Helper()
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	c, err := cluster.New(of, cluster.Backend{
		Harvester: w.client(t, of), Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: w.dir, KubeWrap: w.kubeTap,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// settle brings a file about, and finds nothing to do afterwards.
func (w *onHarvester) settle(t testing.TB, of *spec.Spec) *converge.Report {
	t.Helper()
	report, err := w.bind(t, of).Up().Run(t.Context(), w.listen(t))
	require.NoError(t, err)
	plan, err := w.bind(t, of).Up().Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	assert.Empty(t, openItems(plan))
	return report
}

func openItems(plan *converge.Plan) []string {
	var out []string
	for _, it := range plan.Items {
		if it.Verdict != converge.Clean {
			out = append(out, it.Step+": "+it.Diff.String()+it.Reason)
		}
	}
	return out
}

func (w *onHarvester) machines(t testing.TB, of *spec.Spec) []string {
	t.Helper()
	all, err := w.client(t, of).List(t.Context())
	require.NoError(t, err)
	var out []string
	for _, vm := range all {
		out = append(out, vm.Name)
	}
	return out
}

const hci = `
name: hci
harvester: {kubeconfig: testdata/harvester.yaml}
image: debian-13
network: {bridge: default/vlan10, prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nvidia: {driver: {mode: dkms}}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11-10.0.0.13]}
  gpu: {count: 1, addresses: [10.0.0.21-10.0.0.22], gpus: {count: 1, model: A100}}
`

// TestLifeOnHarvester: a cluster on VMs of Harvester from nothing to GPUs, grown, changed, replaced, and taken away.
func TestLifeOnHarvester(t *testing.T) {
	inHarvester(t, func(t *testing.T, w *onHarvester) {
		file := parse(t, hci)
		plan, err := w.bind(t, file).Up().Plan(t.Context())
		require.NoError(t, err)
		require.NoError(t, plan.Err())
		assert.Empty(t, w.machines(t, file), "a plan makes nothing")

		w.settle(t, file)
		assert.Equal(t, []string{"cp1", "gpu1"}, w.machines(t, file))
		assert.Equal(t, int64(1), w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))

		// Another computer finds the host keys at the VMs.
		key, err := os.ReadFile(filepath.Join(w.dir, "id_ed25519"))
		require.NoError(t, err)
		w.dir = t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "id_ed25519"), key, 0o600))
		w.settle(t, file)

		three := parse(t, strings.Replace(hci, "role: server, count: 1", "role: server, count: 3", 1))
		w.settle(t, three)
		assert.Equal(t, []string{"cp1", "cp2", "cp3", "gpu1"}, w.machines(t, three))

		larger := parse(t, strings.Replace(strings.Replace(hci, "role: server, count: 1", "role: server, count: 3", 1), "model: A100}", "model: A100}, cores: 20", 1))
		w.settle(t, larger)
		gpu, err := w.client(t, larger).Get(t.Context(), "gpu1")
		require.NoError(t, err)
		assert.Equal(t, 20, gpu.Cores)

		g, err := w.bind(t, larger).NodeReplace(t.Context(), "cp2", false)
		require.NoError(t, err)
		before, err := w.client(t, larger).Get(t.Context(), "cp2")
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		after, err := w.client(t, larger).Get(t.Context(), "cp2")
		require.NoError(t, err)
		assert.NotEqual(t, before.Identity(), after.Identity())
		w.settle(t, larger)

		down, err := w.bind(t, larger).Down(t.Context())
		require.NoError(t, err)
		_, err = down.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Empty(t, w.machines(t, larger))
		left, err := w.client(t, larger).Leftovers(t.Context())
		require.NoError(t, err)
		assert.Empty(t, left)
		devices, err := w.client(t, larger).Devices(t.Context())
		require.NoError(t, err)
		assert.False(t, slices.ContainsFunc(devices, func(d harvester.Device) bool { return d.Cluster == "hci" && d.UsedBy != "" }))
	})
}
