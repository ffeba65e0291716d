package proxmox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Who has a claim on which card, and what is promised twice.
func ExamplePCIClient_Ledger() {
	model := pvesim.OneGPU() // any Proxmox VE host
	for i, name := range []string{"games", "notebook"} {
		model.VMs = append(model.VMs, pvesim.VM{ID: 100 + i, Node: "pve1", Name: name, Config: map[string]string{"memory": "1024", "hostpci0": "0000:01:00"}})
	}
	sim := pvesim.New(model, pvesim.Options{})
	defer sim.Close()
	id, value := sim.Token()
	ctx := context.Background()
	c, err := proxmox.Dial(ctx, proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := c.PCI.Ledger(ctx, "pve1")
	if err != nil {
		log.Fatal(err)
	}
	for _, card := range ledger.Cards {
		fmt.Println(card.Address, card.Model)
		for _, claim := range card.Claims {
			fmt.Println(" ", claim, claim.Description())
		}
	}
	for _, conflict := range ledger.Conflicts() {
		fmt.Println(conflict)
	}
	// Output:
	// 0000:01:00.0 GeForce RTX 4090
	//   VM 100 (games) by address as hostpci0, stopped
	//   VM 101 (notebook) by address as hostpci0, stopped
	// 0000:01:00 on pve1 is assigned to VM 100 (games) by address as hostpci0, stopped; VM 101 (notebook) by address as hostpci0, stopped
}
