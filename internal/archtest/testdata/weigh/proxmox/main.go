package main

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/proxmox"
)

func main() {
	ctx := context.Background()
	c, err := proxmox.Dial(ctx, proxmox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	vm, err := c.VMs.Get(ctx, "homelab", "gpu1")
	if err == nil {
		err = proxmox.AttachGPU(ctx, vm, proxmox.HostPCI{Mapping: "gpu"})
	}
	fmt.Println(err)
}
