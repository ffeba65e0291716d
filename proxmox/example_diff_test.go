package proxmox_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/proxmox"
)

// What differs is computed, not asked for: a plan is Diff and nothing else.
func ExampleVMSpec_Diff() {
	spec := proxmox.VMSpec{Name: "wk1", Host: "pve1", Owner: "homelab", Cores: 8, Memory: 32 * proxmox.GiB}
	fmt.Println(spec.Diff(nil))
	seen := &proxmox.VM{
		Name: "wk1", Host: "pve1", VMID: 101, Running: true, Agent: true, SerialConsole: true, CPUType: "host",
		Cores: 8, Memory: 16 * proxmox.GiB, Tags: []string{"homelab"},
	}
	fmt.Println(spec.Diff(seen))
	// Output:
	// 8 cores, 32GiB
	// memory: 16GiB → 32GiB (needs a restart)
}
