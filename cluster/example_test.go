package cluster_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
)

// On what the API token must be granted something, as the file asks for it and no more.
func ExampleGrants() {
	want, err := cluster.Parse("cluster.yaml", []byte(`
name: tiny
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range proxmox.GrantPaths(hostprep.Grants(want, proxmox.Version{Release: "9.2"})) {
		fmt.Println(path)
	}
	// Output:
	// /vms
	// /storage/local
	// /storage/vmdata
	// /sdn/zones/localnetwork/vmbr0
	// /nodes/pve1
}
