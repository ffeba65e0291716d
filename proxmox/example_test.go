package proxmox_test

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Two cards of a host are given a name by which a token may hand them to VMs. The
// host is a simulated one; for a real one leave out HTTPClient and say how its
// certificate is known.
func Example() {
	host := pvesim.New(pvesim.EightA100(), pvesim.Options{Speed: 1000})
	defer host.Close()
	id, value := host.Token()

	ctx := context.Background()
	pve, err := proxmox.Dial(ctx, proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: host.Client(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	gpus, err := pve.PCI.GPUs(ctx, "pve1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range gpus[:2] {
		fmt.Println(g.Address, g.ID(), g.Model)
	}
	want := pci.MapGPUs("training", "cards for training", "pve1", gpus[:2]...)
	seen, _ := pve.PCI.Mapping(ctx, "training", "pve1")
	fmt.Println(want.Diff(seen))
	if err := pve.PCI.EnsureMapping(ctx, want); err != nil {
		fmt.Println(err)
	}
	seen, _ = pve.PCI.Mapping(ctx, "training", "pve1")
	fmt.Println("differs:", !want.Diff(seen).Empty())
	// Output:
	// 0000:01:00.0 10de:20f1 A100 PCIe 40GB
	// 0000:25:00.0 10de:20f1 A100 PCIe 40GB
	// mapping of 2 devices
	// differs: false
}
