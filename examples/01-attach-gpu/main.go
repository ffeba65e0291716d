// Command 01-attach-gpu gives a GPU to a VM that is there already.
//
//	export PROXMOX_TOKEN_SECRET=…
//	go run . -endpoint 10.0.0.5 -token homelab@pve!me -fingerprint 7E:14:… -vmid 110 -card 41:00
//
// A token may hand out cards only through a resource mapping: with -card one is made,
// called as -mapping says; else it must be there. A second run changes nothing.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

func main() {
	var cfg proxmox.Config
	flag.StringVar(&cfg.Endpoint, "endpoint", "", "Proxmox host, with or without https:// and port")
	flag.StringVar(&cfg.TokenID, "token", "", "API token ID, user@realm!name; its secret is read from PROXMOX_TOKEN_SECRET")
	flag.StringVar(&cfg.Fingerprint, "fingerprint", "", "SHA-256 of the host's certificate; empty: the system's authorities are asked")
	vmid := flag.Int("vmid", 0, "VMID of the VM")
	mapping := flag.String("mapping", "gpu", "resource mapping to attach")
	card := flag.String("card", "", "PCI address of a card on the VM's host, e.g. 41:00: the mapping is made for it")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := attach(ctx, cfg, *vmid, *mapping, *card)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attach-gpu:", err)
		os.Exit(1)
	}
}

func attach(ctx context.Context, cfg proxmox.Config, vmid int, mapping, card string) (err error) {
	if cfg.TokenSecret, err = secret.FromEnv("PROXMOX_TOKEN_SECRET"); err != nil {
		return err
	}
	pve, err := proxmox.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	vm, err := pve.ByID(ctx, vmid) // whoever's it is
	if err != nil {
		return err
	}
	if card != "" {
		at, bad := proxmox.ParsePCIAddress(card)
		gpus, err := pve.GPUs(ctx, vm.Host)
		if err := cmp.Or(bad, err); err != nil {
			return err
		}
		i := slices.IndexFunc(gpus, func(g proxmox.GPU) bool { return at.Whole() == g.Address.Whole() })
		if i < 0 {
			return fmt.Errorf("%s has no NVIDIA card at %s", vm.Host, at)
		}
		if err := pve.EnsureMapping(ctx, proxmox.MapGPUs(mapping, "made by attach-gpu", vm.Host, gpus[i])); err != nil {
			return err
		}
	}
	if err := pve.AttachGPU(ctx, vm, proxmox.HostPCI{Mapping: mapping, PCIe: true, ROMBar: true}); err != nil {
		return err
	}
	fmt.Printf("%s has %v\n", vm, vm.GPUs)
	if len(vm.Pending) > 0 {
		fmt.Println("it runs: the card comes with its next start")
	}
	return nil
}
