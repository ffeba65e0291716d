package draft_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/draft"
	"github.com/cps-gpu/homelab/proxmox"
)

// What a host has, turned into a file.
func Example() {
	found := draft.Inventory{Version: "9.2.11", Hosts: []draft.Host{{ // or draft.Discover
		Name: "pve1", CPUs: 16, Memory: 128 * proxmox.GiB,
		Storages: []proxmox.Storage{
			{Name: "local", Active: true, Content: []string{"import", "iso"}},
			{Name: "local-zfs", Active: true, Content: []string{"images"}, Free: 900 * proxmox.GiB},
		},
		Bridges: []proxmox.Bridge{{Name: "vmbr0", CIDR: "192.168.1.10/24", Gateway: "192.168.1.1"}},
		GPUs:    []draft.GPU{{Address: "0000:01:00", Model: "GeForce RTX 4090"}},
	}}}
	answers := found.Defaults()
	answers.Endpoint, answers.TokenID, answers.Secret = "192.168.1.10", "homelab@pve!cluster", "env:TOKEN"
	text, err := draft.Render(found, answers)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.SplitN(text, "\n", 2)[0])
	spec, err := cluster.Parse("cluster.yaml", []byte(text))
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range spec.Nodes {
		fmt.Println(n.Name, n.Address, n.Cores, n.Memory, n.OSDisk.Storage, n.GPUs.Count)
	}
	// Output:
	// # 1 server and 1 worker with 1 GPU in all, on Proxmox VE 9.2.11.
	// cp1 192.168.1.11/24 4 8GiB local-zfs 0
	// gpu1 192.168.1.12/24 8 64GiB local-zfs 1
}
