package harvester_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

func worker() harvester.VMSpec {
	return harvester.VMSpec{
		Name: "a100-wk1", Cores: 16, Memory: 128 * unit.GiB, Image: "noble", EFI: true, Running: true,
		Disks:   []harvester.Disk{{Name: "os", Size: 100 * unit.GiB}},
		NICs:    []harvester.NIC{{Network: "lab", MAC: "52:54:00:00:00:11"}},
		Devices: []harvester.HostDevice{{Name: "node1-000041000", Resource: "nvidia.com/GA100_A100_PCIE_80GB"}},
	}
}

// A machine that does not exist yet.
func Example() {
	spec := worker()
	fmt.Println(spec.Check())
	fmt.Println(spec.Diff(nil))
	// Output:
	// <nil>
	// 16 cores, 128GiB, disk 100GiB, 1 device
}

// The life of a machine: what it needs is checked, it is made or changed, it is known by its host keys, and removed.
func ExampleClient_Shape() {
	ctx := context.Background()
	kubeconfig, err := os.ReadFile("harvester.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := kube.New(kube.Config{Kubeconfig: kubeconfig})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := harvester.New(k, "machines", "a100")
	image := harvester.ImageSpec{Name: "noble", URL: "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"}
	spec := worker()
	spec.UserData = fmt.Appendf(nil, "#cloud-config\nwrite_files:\n- path: %s\n  permissions: '0755'\n  content: %q\n", harvester.HostKeyFile, harvester.HostKeyScript)

	problems, err := c.Check(ctx, harvester.Requirements{Machines: []harvester.VMSpec{spec}, Images: []harvester.ImageSpec{image}})
	if err != nil || len(problems) > 0 {
		fmt.Println(problems, err)
		return
	}
	there, err := c.EnsureImage(ctx, image)
	if err != nil || there.Waiting() != "" {
		fmt.Println(there.Waiting(), err) // ask again
		return
	}
	vm, err := c.Get(ctx, spec.Name)
	if err == nil && !spec.Diff(vm).Empty() {
		err = c.Shape(ctx, spec, vm)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	if keys, err := c.HostKeys(ctx, vm); err == nil && len(keys) > 0 {
		fmt.Println(c.SetHostKeys(ctx, vm, keys), vm.KnownHostKeys())
	}
	fmt.Println(c.Destroy(ctx, vm))
	left, err := c.Leftovers(ctx)
	for _, l := range left {
		err = c.Clear(ctx, l.Machine)
	}
	fmt.Println(err)
	fmt.Println(c.RemoveImage(ctx, image.Name))
}
