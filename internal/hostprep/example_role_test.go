package hostprep_test

import (
	"fmt"
	"log"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
)

// The paths on which the API token of a cluster needs privileges on Proxmox VE 9.2.
func ExampleGrants() {
	want, err := cluster.Parse("cluster.yaml", []byte(`
name: home
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range proxmox.GrantPaths(hostprep.Grants(want, proxmox.Version{Release: "9.2"})) {
		fmt.Println(path)
	}
	// Unordered output:
	// /nodes/pve1
	// /sdn/zones/localnetwork/vmbr0
	// /storage/local
	// /storage/vmdata
	// /vms
}
