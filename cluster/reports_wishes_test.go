package cluster_test

// wishes are reports of people who asked for what cluster.yaml cannot say, or said it in another
// way: the answer is what to write.
func wishes() []report {
	good := []string{"error", "warning"}
	return []report{
		{dir: "09", command: "validate", want: []string{"networks must be a mapping and is a list; write each further card by its name"}, notWant: []string{"did you mean"}},
		{dir: "09", file: "cards.yaml", command: "up", want: []string{"changed   node/gpu1"}, notWant: []string{"failed  "}},
		{dir: "11", file: "dual.yaml", command: "validate", want: []string{"node cp1 has the address 10.0.0.11 alone; write network: {prefix6: NETWORK}, and addresses6: in its pool"}},
		{dir: "11", file: "dual2.yaml", command: "validate", want: []string{"k3s.server.cluster-cidr is set by homelab; write k3s.podCIDR", "write address of the node, and address6 for IPv6 besides"}},
		{dir: "11", file: "both.yaml", command: "up", want: []string{"changed   node/cp1"}, notWant: []string{"failed  "}},
		{dir: "11", file: "first6.yaml", command: "up", want: []string{"changed   node/cp3", "changed   node/w1"}, notWant: []string{"failed  "}},
		{dir: "11", file: "six.yaml", command: "up", want: []string{"changed   node/cp3", "changed   node/w1"}, notWant: []string{"failed  "}},
		{dir: "11", file: "six.yaml", command: "validate", notWant: good},
		{dir: "11", file: "six4.yaml", command: "validate", notWant: good},   // its pods get K3s' IPv6 networks
		{dir: "11", file: "router.yaml", command: "validate", notWant: good}, // fe80::1, as IPv6 routers are
		{dir: "11", file: "resolver.yaml", command: "validate", want: []string{"nodes cannot ask the link-local address fe80::1 for names", "write dns:"}},
		{dir: "13", command: "validate", want: []string{"mount: /var/lib/rancher", "mount: /var/lib/kubelet"}, notWant: []string{"this package"}},
		{dir: "13", file: "cluster2.yaml", command: "validate", notWant: good},
		{dir: "13", file: "cluster2.yaml", site: "../hosts/site.yaml", command: "up", want: []string{"changed   node/cp1"}, notWant: []string{"failed  "}},
		{dir: "13", file: "kept.yaml", command: "validate", want: []string{"kube-reserved, system-reserved and eviction-hard keep 8GiB of memory, and cp1 has 4GiB: its kubelet does not start"}, notWant: []string{"gpu1 has"}},
		{dir: "15", command: "validate", want: []string{"warning: cluster.yaml:8:11: nodes stay tainted"}, notWant: []string{"error"}},
		{dir: "15", site: "../hosts/site.yaml", command: "up", want: []string{"changed   node/cp1", "changed   node/w1"}, notWant: []string{"failed  "}},
		{dir: "15", file: "labels.yaml", command: "validate", want: []string{"label topology.kubernetes.io/region says where a VM is", "the region is proxmox.region"}},
		{dir: "15", file: "cluster2.yaml", command: "validate", want: []string{"none can name one node's provider-id", "gets proxmox://REGION/VMID when it joins"}, notWant: []string{"the outermost level"}},
		{dir: "20", file: "a.yaml", command: "validate", want: []string{"JupyterHub's chart has no key singleuser.resources"}},
		{dir: "20", file: "b.yaml", command: "validate", notWant: good},
		{dir: "20", file: "b.yaml", site: "../hosts/site.yaml", command: "up", want: []string{"changed   node/gpu1"}, notWant: []string{"failed  "}},
		{dir: "20", file: "c.yaml", command: "validate", want: []string{"singleuser.profileList: it replaces the profiles of this file"}, notWant: []string{"extra_resource"}},
		{dir: "20", file: "d.yaml", command: "validate", want: []string{"hub.config.JupyterHub.authenticator_class: dummy replaces the logins of this file: native"}, notWant: []string{"extra_resource"}},
		{dir: "22", command: "host:check", want: []string{"host pve1 has no bridge k8snet", "a VNet of Proxmox's SDN is seen with SDN.Use on /sdn/zones/ZONE/k8snet"}},
		{dir: "23", command: "validate", notWant: good}, // nfsvers=4 takes what the NAS has
		{dir: "23", file: "nfs3.yaml", command: "validate", want: []string{`unknown key "path" in nfs: the server's folder is its export; write export:`, `unknown key "options" in nfs: it has another name; write mountOptions:`}},
		{dir: "24", command: "validate", notWant: []string{"error"}},
		{dir: "24", site: "../hosts/site.yaml", command: "up", want: []string{"changed   node/cp1"}, notWant: []string{"failed  "}},
		{dir: "24", file: "cluster2.yaml", command: "validate", want: []string{"10.50.0.0/24 is outside the nodes' network, where the load balancer answers ARP", "announce it to your router: bgp: {asn: 64512"}},
		{dir: "25", command: "validate", want: []string{"a share of a GPU there has 2GiB of memory", "GPU memory 2GiB on gpu"}},
		{dir: "25", file: "cluster2.yaml", command: "validate", want: []string{"the P40 (Pascal) cannot be shared by MPS", "strategy: time-slicing"}},
		{dir: "25", file: "shares.yaml", command: "up", want: []string{"changed   node/gpu1", "changed   allocatable/gpu1", "changed   allocatable/old1"}, notWant: []string{"failed  "}},
		{dir: "25", file: "p40.yaml", command: "validate", want: []string{"the P40 (Pascal) cannot be shared by MPS"}},
		{dir: "26", command: "validate", notWant: good},
		{dir: "34", file: "arm.yaml", command: "validate", notWant: good}, // see TestMachinesOfTwoArchitectures
		{dir: "34", file: "each.yaml", command: "validate", want: []string{"one section ssh: is for all machines", "beside it privateKey: and jump: user@host:port of its own"}, notWant: []string{"the outermost level"}},
		{dir: "34", file: "name.yaml", command: "validate", want: []string{"nuc1.home.arpa is a name", "getent hosts nuc1.home.arpa"}},
		{dir: "34", file: "sudo.yaml", command: "validate", notWant: good}, // see TestSudoPasswordOfExternalMachine
		{dir: "34", file: "root.yaml", command: "validate", notWant: good},
		{dir: "35", command: "validate", want: []string{"write resourcePool: in defaults", "write network: {firewall: true}", "Proxmox's HA", "write each by its name, e.g. devices: {nvme: ", "write devices: {stick: {usb: ", "balloon", "one socket", "a disk of its host"},
			notWant: []string{"known here", "did you mean"}},
		{dir: "35", file: "order.yaml", command: "up", want: []string{"changed   node/gpu1"}, notWant: []string{"failed  "}},
		{dir: "35", file: "devices.yaml", command: "up", want: []string{"changed   node/wk1"}, notWant: []string{"failed  "}},
		{dir: "37", file: "words.yaml", command: "validate", want: []string{`unknown key "domain" in network: it has another name; write search:`, `unknown key "ip" in cp: it has another name; write addresses:`, `unknown key "node" in cp: it has another name; write host:`}},
		{dir: "37", file: "names.yaml", command: "validate", notWant: []string{"error"}},
		{dir: "37", file: "bridges.yaml", site: "../22/site.yaml", command: "host:check", want: []string{"VMs join bridges, no cards, bonds or VLANs of the host", "make one whose port is bond0.10", "no bridge br-lan"}},
	}
}
