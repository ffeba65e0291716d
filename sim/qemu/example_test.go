package qemu_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// A simulated host on which every imported image boots as a real Debian. It has no
// output here, since it takes minutes: cluster's tests do this.
func Example() {
	run := func(ctx context.Context, dir string) error {
		image, err := qemu.Debian(ctx, os.TempDir())
		if err != nil {
			return err
		}
		hypervisor, err := qemu.New(qemu.Options{
			Image: image, Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Dir: dir,
		})
		if err != nil {
			return err
		}
		sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{
			Hypervisor: hypervisor,
			Internet:   func(string) ([]byte, error) { return hypervisor.ImageFile(), nil }, // any image is that one
		})
		defer sim.Close()
		return serve(ctx, sim)
	}
	if err := run(context.Background(), os.TempDir()); err != nil {
		fmt.Println(err)
	}
}

// serve is whatever speaks to Proxmox: sim.Client, and sim.Network().Dial for SSH.
func serve(context.Context, *pvesim.Sim) error { return nil }
