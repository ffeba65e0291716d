package clusterfile_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
)

// Everything that is wrong is said at once, with its place and its cure.
func ExampleParse_broken() {
	_, err := clusterfile.Parse("cluster.yaml", []byte(`
name: broken
proxmox:
  endpoint: https://10.0.0.5
  token: homelab@pve!broken
  secret: hunter2
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5-k3s1, vip: 10.0.0.100}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11-10.0.0.13]}
  gpu: {count: 1, addresses: [10.0.1.21], memroy: 64GiB, gpus: 1}
`))
	fmt.Println(err)
	// Output:
	// cluster.yaml:6:11: secret must be a reference to a secret, never the secret itself; write env:NAME, file:PATH (mode 0600) or sops:FILE#path, and change the secret if this file was shared
	// cluster.yaml:8:16: "v1.36.5-k3s1" is not a K3s release; write v1.36.5+k3s1
	// cluster.yaml:11:31: address 10.0.1.21 is outside the network 10.0.0.0/24; write a free address of yours from 10.0.0.1 to 10.0.0.254
	// cluster.yaml:11:43: unknown key "memroy" in gpu; did you mean "memory"?
}

// Six lines are enough for a cluster; the rest has defaults.
func ExampleParse() {
	spec, err := clusterfile.Parse("cluster.yaml", []byte(`
name: tiny
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range spec.Nodes {
		fmt.Println(n.Name, n.Role, n.Address, n.MAC, n.Memory, n.GPUs.Count, n.Taints)
	}
	// Output:
	// cp1 server 10.0.0.11/24 02:8f:86:c4:a1:a8 8GiB 0 []
	// gpu1 agent 10.0.0.21/24 02:66:e2:83:63:a3 64GiB 1 [nvidia.com/gpu=present:NoSchedule]
}
