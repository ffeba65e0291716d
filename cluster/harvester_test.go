package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/internal/share"
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
		require.NoError(t, sim.AddNamespace(t.Context(), "ml"))
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
harvester: {kubeconfig: testdata/harvester.yaml, namespace: ml}
image: debian-13
network: {bridge: default/vlan10, prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nvidia: {driver: {mode: dkms}}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11-10.0.0.13]}
  gpu: {count: 1, addresses: [10.0.0.21-10.0.0.22], gpus: {count: 1, model: A100}}
`

// TestLifeOnHarvester: a cluster on VMs of Harvester from nothing to GPUs, grown, changed, replaced and removed.
func TestLifeOnHarvester(t *testing.T) {
	inHarvester(t, func(t *testing.T, w *onHarvester) {
		file := parse(t, hci)
		assert.Equal(t, spec.Harvester{Kubeconfig: "testdata/harvester.yaml", Namespace: "ml"}, file.Harvester, "kubeconfig and namespace")
		plan, err := w.bind(t, file).Up().Plan(t.Context())
		require.NoError(t, err)
		require.NoError(t, plan.Err())
		assert.Empty(t, w.machines(t, file), "a plan makes nothing")

		w.settle(t, file)
		assert.Equal(t, []string{"cp1", "gpu1"}, w.machines(t, file))
		verified, v := w.bind(t, file).GPUVerify(cluster.VerifyQuick, 0)
		w.run(t, verified)
		require.NoError(t, v.Clean(t.Context()))
		require.Len(t, v.Results(), 1)
		assert.True(t, v.Results()[0].Passed)

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
		w.run(t, g)
		after, err := w.client(t, larger).Get(t.Context(), "cp2")
		require.NoError(t, err)
		assert.NotEqual(t, before.Identity(), after.Identity())
		w.settle(t, larger)

		down, err := w.bind(t, larger).Down(t.Context())
		require.NoError(t, err)
		w.run(t, down)
		assert.Empty(t, w.machines(t, larger))
		left, err := w.client(t, larger).Leftovers(t.Context())
		require.NoError(t, err)
		assert.Empty(t, left)
		devices, err := w.client(t, larger).Devices(t.Context())
		require.NoError(t, err)
		assert.False(t, slices.ContainsFunc(devices, func(d harvester.Device) bool { return d.Cluster == "hci" && d.UsedBy != "" }))
	})
}

// TestCrashOnHarvester: a run that dies at any change that it asks Harvester for is gone on with by the next one, and
// nothing is there twice.
func TestCrashOnHarvester(t *testing.T) {
	mine := share.Start(t, "deaths on Harvester")
	for n := 1; n <= 60; n++ { // a life has fewer
		if mine.Next() {
			t.Run(fmt.Sprint(n), func(t *testing.T) { crashOnHarvester(t, n, n%2 == 0) })
		}
	}
}

func crashOnHarvester(t *testing.T, n int, before bool) {
	inHarvester(t, func(t *testing.T, w *onHarvester) {
		file := parse(t, hci)
		ctx, blow := context.WithCancel(t.Context())
		defer blow()
		f := &fuse{n: n, before: before, writes: true, blow: blow}
		w.tap = func(next http.RoundTripper) http.RoundTripper {
			f.next = next
			return f
		}
		_, err := w.bind(t, file).Up().Run(ctx, w.listen(t))
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		time.Sleep(processStart)
		w.tap = nil
		w.settle(t, file)
		assert.Equal(t, []string{"cp1", "gpu1"}, w.machines(t, file))
		assert.Len(t, w.kube.Clusters(), 1, "one control plane, not two")
		claimed := 0
		devices, err := w.client(t, file).Devices(t.Context())
		require.NoError(t, err)
		for _, d := range devices {
			if d.Claimed {
				claimed++
			}
		}
		assert.Equal(t, 1, claimed, "no card is claimed for nobody")
	})
}

// TestKubeadmOnHarvester: what runs Kubernetes does not know where the machines are from.
func TestKubeadmOnHarvester(t *testing.T) {
	inHarvester(t, func(t *testing.T, w *onHarvester) {
		text := strings.Replace(hci, "k3s: {vip: 10.0.0.10}", "distribution: kubeadm\nkubeadm: {vip: 10.0.0.10}\ncharts: {offline: true, folder: "+charts(t)+"}", 1)
		w.settle(t, parse(t, text))
		assert.Equal(t, int64(1), w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		smaller, _, _ := strings.Cut(text, "  gpu:")
		one := parse(t, smaller)
		w.settle(t, one)
		assert.Equal(t, []string{"cp1"}, w.machines(t, one), "a machine that left the file is gone")
		assert.NotContains(t, w.nodes(t), "gpu1")
	})
}

func (w *onHarvester) run(t testing.TB, g *converge.Graph) {
	t.Helper()
	_, err := g.Run(t.Context(), w.listen(t))
	require.NoError(t, err)
}

// TestHubOnHarvester: parts of the platform, and another version of Kubernetes.
func TestHubOnHarvester(t *testing.T) {
	inHarvester(t, func(t *testing.T, w *onHarvester) {
		hub := hci + "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}\ncharts: {offline: true, folder: " + charts(t) + "}\n"
		w.settle(t, parse(t, hub))
		assert.Contains(t, w.kube.Clusters()[0].Names("deployments.apps"), "jupyterhub/hub")

		w.settle(t, parse(t, strings.Replace(hub, "k3s: {", "k3s: {version: v1.36.6+k3s1, ", 1)))
		for name, n := range w.nodes(t) {
			assert.Equal(t, "v1.36.6+k3s1", n.Version, name)
			assert.True(t, n.Ready && !n.Cordoned, name)
		}
	})
}

// TestRestoreOnHarvester: a backup, and what was there then on machines that are created again.
func TestRestoreOnHarvester(t *testing.T) {
	inHarvester(t, func(t *testing.T, w *onHarvester) {
		file := parse(t, hci)
		w.settle(t, file)
		w.kubectlApply(t, "before")
		key, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		var saved bytes.Buffer
		_, _, err = w.bind(t, file).Backup(t.Context(), &saved, []age.Recipient{key.Recipient()})
		require.NoError(t, err)
		w.kubectlApply(t, "after")

		v := vault{key, saved.Bytes()}
		r, _, err := v.open()
		require.NoError(t, err)
		g, err := w.bind(t, file).Restore(r.Contents, v.open)
		require.NoError(t, err)
		w.run(t, g)
		assert.Equal(t, []string{"default/before"}, w.configMaps(t))
		w.settle(t, file)
	})
}
