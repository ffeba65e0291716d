package harvester_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox/unit"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/harvestersim"
)

const (
	model    = "nvidia.com/GA100_A100_PCIE_80GB"
	imageURL = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"
)

// world is a Harvester cluster with two nodes, of which the first has two GPUs, one with a second function.
type world struct {
	*harvestersim.Sim
	c *harvester.Client
}

// play runs a test in a bubble, with the cluster a100's client.
func play(t *testing.T, test func(ctx context.Context, t *testing.T, w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		sim, err := harvestersim.New(ctx, harvestersim.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, sim.Close()); _ = sim.Network().Close() }()
		card := func(address, group string) harvestersim.PCI {
			return harvestersim.PCI{PCI: guest.PCI{Host: address, Vendor: 0x10de, Device: 0x20b5, Class: 0x030200}, Resource: model,
				Description: "3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB]", IOMMUGroup: group}
		}
		audio := harvestersim.PCI{PCI: guest.PCI{Host: "0000:41:00.1", Vendor: 0x10de, Device: 0x1aef, Class: 0x040300}, Resource: "nvidia.com/AUDIO",
			Description: "Audio device: NVIDIA Corporation", IOMMUGroup: "41"}
		require.NoError(t, sim.AddNode(ctx, harvestersim.Node{Name: "node1", CPUs: 64, Memory: 512 << 30,
			PCI: []harvestersim.PCI{card("0000:41:00.0", "41"), audio, card("0000:81:00.0", "81")}}))
		require.NoError(t, sim.AddNode(ctx, harvestersim.Node{Name: "node2", CPUs: 64, Memory: 512 << 30}))
		require.NoError(t, sim.AddNetwork(ctx, "machines", "lab"))
		test(ctx, t, world{sim, harvester.New(clientOf(t, sim, nil), "machines", "a100")})
	})
}

func clientOf(t *testing.T, sim *harvestersim.Sim, wrap func(http.RoundTripper) http.RoundTripper) *kube.Client {
	t.Helper()
	k, err := kube.New(kube.Config{Kubeconfig: sim.Kubeconfig(), Wrap: wrap,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func noble() harvester.ImageSpec { return harvester.ImageSpec{Name: "noble", URL: imageURL} }

// image has the image imported.
func (w world) image(ctx context.Context, t *testing.T) {
	t.Helper()
	w.eventually(t, func() bool {
		i, err := w.c.EnsureImage(ctx, noble())
		require.NoError(t, err)
		return i.Waiting() == ""
	})
}

func (w world) eventually(t *testing.T, is func() bool) {
	t.Helper()
	for range 300 {
		if is() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("it never came true")
}

// small is a machine without devices.
func small(name string, n int) harvester.VMSpec {
	return harvester.VMSpec{
		Name: name, Cores: 4, Memory: 8 * unit.GiB, Image: "noble", EFI: true, Running: true, Description: "a machine of a100",
		Disks: []harvester.Disk{{Name: "os", Size: 50 * unit.GiB}, {Name: "data", Size: 100 * unit.GiB, Serial: "data"}},
		NICs:  []harvester.NIC{{Network: "lab", MAC: fmt.Sprintf("52:54:00:00:00:%02x", n)}},
		UserData: fmt.Appendf(nil, "#cloud-config\nhostname: %s\nwrite_files:\n- path: %s\n  permissions: '0755'\n  content: %q\n",
			name, harvester.HostKeyFile, harvester.HostKeyScript),
		NetworkData: fmt.Appendf(nil, "version: 2\nethernets:\n  eth0:\n    match: {macaddress: \"52:54:00:00:00:%02x\"}\n    set-name: eth0\n"+
			"    addresses: [10.0.0.%d/24]\n    routes: [{to: default, via: 10.0.0.1}]\n    nameservers: {addresses: [10.0.0.1]}\n", n, n),
	}
}

// shape makes or changes a machine until nothing differs, and returns it as it is when it runs.
func (w world) shape(ctx context.Context, t *testing.T, s harvester.VMSpec) *harvester.VM {
	t.Helper()
	var vm *harvester.VM
	w.eventually(t, func() bool {
		var err error
		vm, err = w.c.Get(ctx, s.Name)
		require.NoError(t, err)
		if s.Diff(vm).Empty() && (vm.Running || !s.Running) {
			return true
		}
		if !s.Diff(vm).Empty() {
			err = w.c.Shape(ctx, s, vm)
			require.True(t, err == nil || converge.IsTransient(err), "%v", err) // a controller was quicker
		}
		return false
	})
	return vm
}
