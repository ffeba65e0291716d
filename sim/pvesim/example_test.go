package pvesim_test

import (
	"context"
	"fmt"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A client library talks to a simulated host as it would to a real one, and
// meets a task that fails.
func Example() {
	sim := pvesim.New(pvesim.EightA100(), pvesim.Options{Speed: 1000})
	defer sim.Close()
	id, secret := sim.Token()
	client := proxmox.NewClient("https://pve1:8006/api2/json",
		proxmox.WithHTTPClient(sim.Client()), proxmox.WithAPIToken(id, secret))

	ctx := context.Background()
	node, err := client.Node(ctx, "pve1")
	if err != nil {
		fmt.Println(err)
		return
	}
	vm, err := node.VirtualMachine(ctx, 104)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(vm.Name, vm.Status)

	sim.Fail(pvesim.Rule{Path: ".*/status/start", TaskError: "start failed: QEMU exited with code 1"})
	task, err := vm.Start(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := task.Wait(ctx, 10*time.Millisecond, time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.ExitStatus)
	// Output:
	// win11 stopped
	// start failed: QEMU exited with code 1
}
