package clusterfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/nvidia"
)

// nodesSection completes and checks defaults, pools and nodes.
type nodesSection struct{ *resolver }

// uniqueNodes checks names, VMIDs, MACs and addresses.
func (r nodesSection) uniqueNodes() {
	called, vmids, macs, addresses := map[string]any{}, map[int]any{}, map[spec.MAC]any{}, map[netip.Addr]any{}
	for _, n := range r.machines() {
		if !decode.DNSLabel.MatchString(n.Name) {
			r.Wrong(n.Node, fmt.Sprintf("%q cannot be a machine's name, which is also its hostname", n.Name), "write at most 63 lower-case letters, digits and hyphens, with no hyphen at the ends")
		}
		if strings.HasPrefix(n.Name, r.spec.Name+names.TemplateInfix) {
			r.Wrong(n.Node, fmt.Sprintf("%q cannot be a node's name: templates of the cluster %s have such names", n.Name, r.spec.Name), "give it another name")
		}
		unique(r.resolver, called, n.Name, n.Node, fmt.Sprintf("there is another machine %s", n.Name), "give one of them another name")
		if n.VMID != 0 {
			unique(r.resolver, vmids, n.VMID, &n.VMID, fmt.Sprintf("VMID %d is another machine's", n.VMID), "VMIDs are unique in a Proxmox cluster, over all its hosts: write another, or leave it out")
		}
		if !n.External {
			unique(r.resolver, macs, n.MAC, &n.MAC, fmt.Sprintf("MAC %s is another machine's", n.MAC), "write another, or leave it out")
		}
		if !n.DHCP() {
			unique(r.resolver, addresses, n.Address.Addr(), r.addressPlace(n), fmt.Sprintf("address %s is another machine's", n.Address.Addr()), "write another")
		}
		if a := n.Address6.Addr(); a.IsValid() {
			unique(r.resolver, addresses, a, &n.Address6, fmt.Sprintf("address %s is another machine's", a), "write another")
		}
		cardsSection(r).checkOverlaps(n, macs, addresses)
	}
}

func (r nodesSection) nodeLabels(n plannedNode) {
	for _, key := range sortedNames(n.Labels) {
		at := r.MemberAt(&n.Labels, key)
		switch {
		case !spec.IsLabelKey(key):
			r.Wrong(at, fmt.Sprintf("%q cannot be a label", key), "write letters, digits, - _ and . after an optional domain and slash, e.g. example.com/room")
		case decode.IsProtectedLabel(key):
			r.Wrong(at, fmt.Sprintf("label %s belongs to Kubernetes", key), "use a domain of your own, e.g. example.com/"+key[strings.LastIndexByte(key, '/')+1:])
		case n.OnProxmox() && spec.IsTopologyLabel(key):
			r.Wrong(at, fmt.Sprintf("label %s says where a VM is, and homelab sets it", key), "remove it: the zone is the node's host, and the region is proxmox.region; for other groups use a domain of your own")
		case !spec.IsLabelValue(n.Labels[key]):
			r.Wrong(at, fmt.Sprintf("label %s cannot have the value %q", key, n.Labels[key]), "write at most 63 letters, digits, - _ and ., with letters or digits at the ends")
		}
	}
	seen := map[spec.Taint]bool{}
	for i, t := range n.Taints {
		key := spec.Taint{Key: t.Key, Effect: t.Effect}
		if seen[key] {
			r.Wrong(&n.Taints[i], fmt.Sprintf("taint %s with effect %s is here twice", t.Key, t.Effect), "keep one of them")
		}
		seen[key] = true
	}
}

// maxNodes limits the nodes of a pool, so that a typing error gives a message instead of using
// up the memory. A plan of so many takes about two seconds.
const maxNodes = 1000

// poolOnly are a pool's keys that its nodes do not inherit.
var poolOnly = []string{"count", "prefix", "first", "names", "addresses", "addresses6", "vmids"}

// makeNodes merges defaults, pools and nodes into plannedNodes. It merges the trees, so that
// inherited values keep the place where they were written.
func (r nodesSection) makeNodes(root *yamlnode.Node) {
	base := &yamlnode.Node{Kind: yamlnode.Map}
	if network := root.Get("network").AsMap(); network != nil {
		base = base.With("network", network)
	}
	base = decode.Merge(base, root.Get("defaults").AsMap())
	names, madeBy := r.allPoolNames()
	for i := range r.spec.Pools {
		p := &r.spec.Pools[i]
		members := names[p.Name]
		for _, n := range r.entries {
			if n.Pool == p.Name && madeBy[n.Name] == "" {
				members = append(members, n.Name)
			}
		}
		if len(members) == 0 {
			r.Warn(p, fmt.Sprintf("pool %s has no nodes", p.Name), "write count: and how many")
		}
		r.poolMembers(p, members, decode.Merge(base, root.Get("pools").Get(p.Name).AsMap().Without(poolOnly...)), root.Get("nodes"))
	}
	r.loneNodes(base, root.Get("nodes"), madeBy)
}

// allPoolNames lists the nodes of each pool, and the pool of each node.
func (r nodesSection) allPoolNames() (names map[string][]string, madeBy map[string]string) {
	names, madeBy = map[string][]string{}, map[string]string{}
	for i := range r.spec.Pools {
		p := &r.spec.Pools[i]
		if !decode.Matches(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`, p.Name) {
			r.Wrong(p, fmt.Sprintf("%q cannot be a pool's name", p.Name), "write letters, digits and hyphens")
		}
		names[p.Name] = slices.DeleteFunc(r.poolNames(p), func(n string) bool {
			other, twice := madeBy[n]
			if twice && other != p.Name {
				r.Wrong(p, fmt.Sprintf("pools %s and %s both create a node %s", other, p.Name, n), "write prefix: or first: in one of them")
			}
			if !twice {
				madeBy[n] = p.Name
			}
			return twice
		})
	}
	return names, madeBy
}

// poolNames lists the names of the pool's own nodes.
func (r nodesSection) poolNames(raw *spec.Pool) []string {
	if len(raw.Names) > 0 {
		for _, at := range []any{&raw.Count, &raw.Prefix, &raw.First} {
			if r.IsSet(at) {
				r.Wrong(at, "the pool has names, so this has no effect", "remove it, or names")
			}
		}
		for i, n := range raw.Names {
			if j := slices.Index(raw.Names, n); j < i {
				r.Wrong(&raw.Names[i], fmt.Sprintf("node %s is here twice", n), "give it another name")
			}
		}
		return slices.Clone(raw.Names)
	}
	first, count := or(raw.First, 1), raw.Count
	r.CheckRange(&raw.Count, "count", 0, maxNodes)
	r.CheckOptionalRange(raw.First, &raw.First, "first", 0, maxNodes)
	if count < 0 || count > maxNodes { // which is reported: one node stands for them
		count = 1
	}
	var names []string
	for i := range count {
		names = append(names, cmp.Or(raw.Prefix, raw.Name)+strconv.Itoa(first+i))
	}
	return names
}

// poolMembers makes a pool's nodes. The n-th node gets the n-th address and VMID, even if
// others have their own: overriding one node does not change the others.
func (r nodesSection) poolMembers(p *spec.Pool, names []string, shape, nodes *yamlnode.Node) {
	addresses, vmids := decode.Addresses(p.Addresses, len(names)), decode.VMIDs(p.VMIDs, len(names))
	addresses6 := decode.Addresses(p.Addresses6, len(names))
	needsAddress := func(own *yamlnode.Node) bool {
		return !own.Has("address") && !own.Has("external") && !own.Get("network").Has("dhcp")
	}
	needsVMID := func(own *yamlnode.Node) bool { return !own.Has("vmid") && !own.Has("external") }
	r.enough(&p.Addresses, "addresses", p.Name, len(addresses), lastThat(names, nodes, needsAddress))
	needs6 := func(own *yamlnode.Node) bool { return !own.Has("address6") }
	r.enough(&p.Addresses6, "addresses6", p.Name, len(addresses6), lastThat(names, nodes, needs6))
	r.enough(&p.VMIDs, "VMIDs", p.Name, len(vmids), lastThat(names, nodes, needsVMID))
	for i, name := range names {
		own := nodes.Get(name).AsMap()
		t := decode.Merge(shape, own)
		if i < len(addresses) && needsAddress(own) {
			a := addresses[i]
			t = t.With("address", &yamlnode.Node{Kind: yamlnode.Text, Text: a.Value.String(), At: r.Place(&p.Addresses[a.From])})
		}
		if i < len(addresses6) && needs6(own) {
			a := addresses6[i]
			t = t.With("address6", &yamlnode.Node{Kind: yamlnode.Text, Text: a.Value.String(), At: r.Place(&p.Addresses6[a.From])})
		}
		if i < len(vmids) && needsVMID(own) {
			v := vmids[i]
			t = t.With("vmid", &yamlnode.Node{Kind: yamlnode.Number, Text: strconv.Itoa(v.Value), At: r.Place(&p.VMIDs[v.From])})
		}
		t = cardsSection(r).poolCards(p, i, len(names), t, own)
		if own == nil {
			moved := *t
			moved.At = r.Place(p)
			t = &moved
		}
		r.node(name, p.Name, t, byName(r.entries, name))
		made := &r.nodes[len(r.nodes)-1]
		made.short, made.short6 = i >= len(addresses) && r.IsSet(&p.Addresses), i >= len(addresses6) && r.IsSet(&p.Addresses6)
	}
}

// lastThat counts the nodes up to the last one that needs a value from its pool.
func lastThat(names []string, nodes *yamlnode.Node, needs func(own *yamlnode.Node) bool) int {
	for i, name := range slices.Backward(names) {
		if needs(nodes.Get(name).AsMap()) {
			return i + 1
		}
	}
	return 0
}

// enough reports a pool whose lists are too short for its nodes.
func (r nodesSection) enough(at any, what, pool string, have, want int) {
	if r.IsSet(at) && have > 0 && have < want {
		r.Wrong(at, fmt.Sprintf("pool %s has %d nodes and %s for %d", pool, want, what, have), "write a range for all of them, or count less")
	}
}

// loneNodes makes the nodes that are in no pool's own list.
func (r nodesSection) loneNodes(base, nodes *yamlnode.Node, madeBy map[string]string) {
	for i := range r.entries {
		n := &r.entries[i]
		pool, made := madeBy[n.Name]
		switch {
		case made && n.Pool != "" && n.Pool != pool:
			r.Wrong(&n.Pool, fmt.Sprintf("node %s comes from pool %s but names pool %s", n.Name, pool, n.Pool), "remove pool, or give the node another name")
		case made:
		case n.Pool != "" && !slices.Contains(r.poolList(), n.Pool):
			r.Wrong(&n.Pool, fmt.Sprintf("there is no pool %q", n.Pool), decode.OrSuggest(n.Pool, r.poolList()))
		case n.Pool == "":
			r.node(n.Name, "", decode.Merge(base, nodes.Get(n.Name).AsMap()), n)
		}
	}
}

// byName is the node of that name, or nil.
func byName(nodes []spec.Node, name string) *spec.Node {
	i := slices.IndexFunc(nodes, func(n spec.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}

// poolList are the names of the pools.
func (r nodesSection) poolList() []string {
	var out []string
	for _, p := range r.spec.Pools {
		out = append(out, p.Name)
	}
	return out
}

// node makes one node. own is its entry under nodes, or nil.
func (r nodesSection) node(name, pool string, t *yamlnode.Node, own *spec.Node) {
	n := &spec.Node{}
	r.DecodeMerged(t, n)
	n.Name, n.Pool = name, pool
	r.nodes = append(r.nodes, r.complete(n, own))
}

// complete completes a node, or another VM, as it is merged.
func (r nodesSection) complete(n, own *spec.Node) plannedNode {
	networkSection(r).network(&n.Network)
	r.badRole = r.badRole || r.Refused(&n.Role)
	address := n.Address.Addr()
	n.Host, n.Address = cmp.Or(n.Host, r.defaultHost()), netip.Prefix{}
	if n.MAC == (spec.MAC{}) {
		n.MAC = spec.StableMAC(r.spec.Name, n.Name)
	}
	if r.IsSet(&n.SSH) {
		r.external(n)
	}
	if r.spec.HasHarvester() && !n.External {
		harvesterSection(r).node(n)
	}
	if n.Adopt && n.External {
		r.Wrong(&n.Adopt, "an external machine is not a VM that could be adopted", "remove adopt or external")
	}
	if n.KeyFile != "" && !n.External {
		r.Wrong(&n.KeyFile, "privateKey is the key of an existing machine, and homelab makes this one", "write ssh.privateKey and ssh.publicKeys, or remove privateKey")
	}
	if n.Jump != "" && !n.External {
		r.Wrong(&n.Jump, "jump is the jump host of an existing machine, and homelab makes this one", "write ssh.jump, or remove jump")
	}
	if !n.SudoPassword.IsZero() && !n.External {
		r.Wrong(&n.SudoPassword, "sudoPassword is for an existing machine, and homelab makes this one, whose user needs none", "remove sudoPassword")
	}
	nvidiaSection(r).gpus(&n.GPUs, n.External)
	r.shape(n)
	hardwareSection(r).hardware(n)
	disksSection(r).disks(n)
	cardsSection(r).cards(n)
	devicesSection(r).devices(n)
	if address.IsValid() && n.Network.Prefix.IsValid() && address.BitLen() == n.Network.Prefix.Addr().BitLen() {
		n.Address = netip.PrefixFrom(address, n.Network.Prefix.Bits())
	}
	if a, p := n.Address6.Addr(), n.Network.Prefix6; p.Contains(a) {
		n.Address6 = netip.PrefixFrom(a, p.Bits())
	}
	if n.Network.Queues == 0 {
		n.Network.Queues = min(n.Cores, 64)
	}
	if n.Taints == nil && n.HasGPUs() && n.Role == spec.Agent {
		n.Taints = []spec.Taint{{Key: nvidia.TaintKey, Value: nvidia.TaintValue, Effect: "NoSchedule"}}
	}
	if own != nil {
		r.PutAt(n, own)
	}
	return plannedNode{n, address, false, false}
}

// external resolves an external machine.
func (r nodesSection) external(n *spec.Node) {
	n.External, n.Host = true, ""
	guestSection(r).privateKey(&n.KeyFile)
	if n.Jump != "" {
		n.Jump = r.login(&n.Jump, r.spec.Access.User)
	}
	login := r.login(&n.SSH, r.spec.Access.User)
	user, host, _ := decode.CutLast(login, "@")
	addr, err := netip.ParseAddrPort(host)
	switch {
	case login == "":
		return
	case err != nil:
		name, port, _ := decode.CutLast(host, ":")
		r.Wrong(&n.SSH, fmt.Sprintf("%s is a name, and an external machine is named by its address, which K3s' nodes keep", name),
			fmt.Sprintf("write %s@ADDRESS:%s with the address that getent hosts %s shows, and reserve it in your DHCP server", user, port, name))
		return
	}
	n.SSHUser, n.SSHPort = user, int(addr.Port())
	switch {
	case user != "root":
		n.SudoPassword = cmp.Or(n.SudoPassword, r.spec.Access.SudoPassword)
	case !n.SudoPassword.IsZero():
		r.Wrong(&n.SudoPassword, "root logs in to this machine, and needs no sudo", "remove sudoPassword, or write external: and another user")
	}
	if n.SSHUser == r.spec.Access.User {
		n.SSHUser = ""
	}
	n.Address = netip.PrefixFrom(addr.Addr(), addr.Addr().BitLen())
	if n.Network.Prefix.Contains(addr.Addr()) {
		n.Address = netip.PrefixFrom(addr.Addr(), n.Network.Prefix.Bits())
	}
	if r.IsSet(&n.Address) {
		r.Wrong(&n.Address, "external holds the machine's address", "remove address")
	}
	if r.IsSet(&n.VMID) {
		r.Wrong(&n.VMID, "an external machine has no VM", "remove vmid")
	}
}

// shape sets cores and memory; GPU nodes get more, because a notebook that waits for memory
// leaves its card idle.
func (r nodesSection) shape(n *spec.Node) {
	cores, memory := 8, 16*spec.GiB
	switch {
	case n.FromDiscs() && !n.HasGPUs():
		cores, memory = 4, 8*spec.GiB
	case n.Boot != nil && !n.HasGPUs():
		cores, memory = 2, 4*spec.GiB
	case n.HasGPUs():
		cores, memory = 16, 64*spec.GiB
	case n.Role == spec.Server:
		cores, memory = 4, 8*spec.GiB
	}
	if !r.IsSet(&n.Cores) {
		n.Cores = cores
	}
	if !r.IsSet(&n.Memory) {
		n.Memory = memory
	}
	n.NUMA = n.NUMA.Or(n.HasGPUs())
	n.TPM = n.TPM || n.FromDiscs() && !r.IsSet(&n.TPM)
	r.CheckRange(&n.Cores, "cores", 1, 1024)
	r.CheckRange(&n.CPUUnits, "cpuUnits", 1, 10000)
	if n.CPULimit > 128 || r.IsSet(&n.CPULimit) && n.CPULimit <= 0 {
		r.Wrong(&n.CPULimit, fmt.Sprintf("cpuLimit is %v", n.CPULimit), "write a number above 0 and up to 128, or leave it out")
	}
	least := 512 * spec.MiB
	if n.Role == spec.Server {
		least = 2 * spec.GiB
	}
	if n.FromDiscs() {
		least = 4 * spec.GiB // Windows 11's
	}
	switch {
	case n.Boot != nil && n.Memory < least:
		r.Wrong(&n.Memory, fmt.Sprintf("%s of memory is too little for a VM", n.Memory), "write "+least.String()+" or more")
	case n.Memory < least:
		r.Wrong(&n.Memory, fmt.Sprintf("%s of memory is too little for K3s on a node of role %s", n.Memory, n.Role), "write "+least.String()+" or more")
	case n.Memory%spec.MiB != 0:
		r.Wrong(&n.Memory, fmt.Sprintf("memory %s is not a whole number of MiB", n.Memory), "write e.g. "+(n.Memory/spec.MiB*spec.MiB).String())
	}
	if !decode.Matches(`^(custom-)?[A-Za-z0-9][A-Za-z0-9_.-]*(,[a-z-]+=[^,\s]+)*$`, n.CPUType) {
		r.Wrong(&n.CPUType, fmt.Sprintf("%q cannot be a CPU type", n.CPUType), "write host, or a type that Proxmox lists")
	}
	if n.ResourcePool != "" && !decode.Matches(`^[A-Za-z][A-Za-z0-9._-]*(/[A-Za-z][A-Za-z0-9._-]*){0,2}$`, n.ResourcePool) {
		r.Wrong(&n.ResourcePool, fmt.Sprintf("%q cannot be a resource pool's name", n.ResourcePool), "write the name that Datacenter, Permissions, Pools shows, e.g. k8s or k8s/gpu")
	}
	n.CheckFirewall(r)
	for i, tag := range n.Tags {
		if !decode.Matches(`^[A-Za-z0-9_][A-Za-z0-9_+.-]*$`, tag) {
			r.Wrong(&n.Tags[i], fmt.Sprintf("%q cannot be a tag", tag), "write letters, digits, _ + - and ., without blanks")
		}
	}
	if len(n.Description) > 8000 { // Proxmox allows 8192, and we add a line
		r.Wrong(&n.Description, "the description has more than 8000 characters", "shorten it")
	}
	r.CheckRange(&n.VMID, "vmid", spec.MinVMID, spec.MaxVMID)
	r.storageName(&n.Storage)
}
