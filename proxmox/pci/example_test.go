package pci_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Two VMs name the same card: Proxmox takes both configurations, and starts one of them.
func ExampleLedger_Conflicts() {
	card := [][]unit.PCIAddress{{{Bus: 0x41, Function: 0}}}
	ledger := pci.Ledger{Claims: []pci.Claim{
		{Host: "pve1", VMID: 100, Name: "games", Slot: "hostpci0", Running: true, Choices: card},
		{Host: "pve1", VMID: 101, Name: "notebook", Slot: "hostpci0", OnBoot: true, Choices: card},
	}}
	for _, c := range ledger.Conflicts() {
		fmt.Println(c, "- sure:", c.Sure)
	}
	// Output:
	// 0000:41:00 on pve1 is assigned to VM 100 (games) by address as hostpci0, running; VM 101 (notebook) by address as hostpci0, stopped, starts with the host - sure: true
}

// A mapping is compared with what was seen, and the difference is what changes.
func ExampleMapping_Diff() {
	card := pci.GPU{Function: pci.Function{Address: unit.PCIAddress{Bus: 0x41, Function: 0}, Vendor: "10de", Device: "20b2", IOMMUGroup: 25}}
	want := pci.MapGPUs("training", "cards for training", "pve1", card)
	fmt.Println(want.Diff(nil))
	seen := &pci.MappingState{Mapping: want, Problems: []string{"pci device '0000:41:00' not found"}}
	fmt.Println(want.Diff(seen))
	// Output:
	// mapping of 1 device
	// hardware: pci device '0000:41:00' not found → a mapping that fits
}
