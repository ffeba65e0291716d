// Command 01-attach-gpu attaches a GPU to an existing VM, no matter who created it.
//
//	export PROXMOX=10.0.0.5 PROXMOX_TOKEN=homelab@pve!me PROXMOX_TOKEN_SECRET=… PROXMOX_FINGERPRINT=7E:14:…
//	go run . -vmid 110 -card 41:00
//
// A token may attach cards only through a resource mapping; a missing one is created. A second
// run changes nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/secret"
)

func main() {
	vmid := flag.Int("vmid", 0, "VMID of the VM")
	card := flag.String("card", "", "PCI address of a card on the VM's host, e.g. 41:00")
	mapping := flag.String("mapping", "gpu", "name of the resource mapping")
	flag.Parse()
	if err := attach(context.Background(), *vmid, *card, *mapping); err != nil {
		log.Fatal(err)
	}
}

func attach(ctx context.Context, vmid int, card, mapping string) error {
	token, err := secret.FromEnv("PROXMOX_TOKEN_SECRET")
	if err != nil {
		return err
	}
	pve, err := proxmox.Dial(ctx, proxmox.Config{
		Endpoint: os.Getenv("PROXMOX"), TokenID: os.Getenv("PROXMOX_TOKEN"), TokenSecret: token, Fingerprint: os.Getenv("PROXMOX_FINGERPRINT"),
	})
	if err != nil {
		return err
	}
	vm, err := pve.VMs.GetByID(ctx, vmid)
	if err != nil {
		return err
	}
	gpu, err := pve.PCI.GPU(ctx, vm.Host, card)
	if err != nil {
		return err
	}
	if err := pve.PCI.EnsureMapping(ctx, pci.MapGPUs(mapping, "made by attach-gpu", vm.Host, gpu)); err != nil {
		return err
	}
	if err := proxmox.AttachGPU(ctx, vm, proxmox.HostPCI{Mapping: mapping, PCIe: true}); err != nil {
		return err
	}
	fmt.Printf("%s has %v, from its next start: %v\n", vm, vm.GPUs, len(vm.Pending) > 0)
	return nil
}
