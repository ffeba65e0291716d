package clusterfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
)

// validate checks the file as a whole: what involves several sections.
func (r *resolver) validate() {
	r.servers()
	r.noProxmox()
	r.realGuests()
	r.uniqueNodes()
	for _, n := range r.nodes {
		r.nodeNetwork(n)
		r.nodeLabels(n)
		r.nodeHost(n)
	}
	r.vip()
	r.clusterNetworks()
	r.cards()
	r.runtimeClass()
	r.capacity()
	r.validatePlatform()
	r.operatorMIG()
	r.unused()
	r.partsRender()
}

// runtimeClass refuses to disable K3s' component runtimes (manifests/runtimes.yaml), which
// creates the RuntimeClass nvidia. Without it, no pod with that class is admitted, including
// the device plugin's own. NVIDIA's operator creates the class itself, and with stack: none
// somebody else manages the cards.
func (r *resolver) runtimeClass() {
	i := slices.Index(r.disabled, "runtimes")
	if i < 0 || len(r.spec.GPUNodes()) == 0 || r.spec.NVIDIA.Stack != spec.StackDevicePlugin {
		return
	}
	r.Wrong(&r.disabled[i], "runtimes creates the RuntimeClass nvidia, without which no container sees a GPU", "remove runtimes from k3s.disable")
}

func (r *resolver) servers() {
	servers := 0
	for _, n := range r.nodes {
		if n.Role == spec.Server {
			servers++
		}
	}
	at := any(&r.spec.Pools)
	for i := range r.spec.Pools {
		if p := &r.spec.Pools[i]; p.Role == spec.Server {
			at = p
		}
	}
	switch {
	case r.badRole, len(r.nodes) == 0 && r.Undecoded(): // reported elsewhere
	case len(r.nodes) == 0:
		r.Wrong(&r.spec.Pools, "the cluster has no nodes", "write pools: with at least one of role server, e.g. pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}")
	case servers == 0:
		r.Wrong(at, "the cluster has no server", "write role: server in one of the pools; 3 servers survive the loss of one")
	case servers%2 == 0:
		r.Warn(at, fmt.Sprintf("%d servers are no safer than %d: etcd needs more than half of them, so one more server does not allow one more failure", servers, servers-1), fmt.Sprintf("make it %d or %d", servers-1, servers+1))
	case servers > 7:
		r.Warn(at, fmt.Sprintf("%d servers are slower than 5: every write waits for more than half of them", servers), "make it 3 or 5")
	}
}

// unique reports the second use of a value, with the place of the first.
func unique[K comparable](r *resolver, seen map[K]any, key K, at any, what, cure string) {
	if first, ok := seen[key]; ok {
		where := r.Line(first)
		if r.Place(first) == r.Place(at) {
			where = "the same line"
		}
		r.Wrong(at, fmt.Sprintf("%s, in %s", what, where), cure)
		return
	}
	seen[key] = at
}

// uniqueNodes checks names, VMIDs, MACs and addresses.
func (r *resolver) uniqueNodes() {
	called, vmids, macs, addresses := map[string]any{}, map[int]any{}, map[spec.MAC]any{}, map[netip.Addr]any{}
	for _, n := range r.nodes {
		if !decode.DNSLabel.MatchString(n.Name) {
			r.Wrong(n.Node, fmt.Sprintf("%q cannot be a node's name, which is also its hostname", n.Name), "write at most 63 lower-case letters, digits and hyphens, with no hyphen at the ends")
		}
		if strings.HasPrefix(n.Name, r.spec.Name+names.TemplateInfix) {
			r.Wrong(n.Node, fmt.Sprintf("%q cannot be a node's name: templates of the cluster %s have such names", n.Name, r.spec.Name), "give it another name")
		}
		unique(r, called, n.Name, n.Node, fmt.Sprintf("there is another node %s", n.Name), "give one of them another name")
		if n.VMID != 0 {
			unique(r, vmids, n.VMID, &n.VMID, fmt.Sprintf("VMID %d is another node's", n.VMID), "VMIDs are unique in a Proxmox cluster, over all its hosts: write another, or leave it out")
		}
		if !n.External {
			unique(r, macs, n.MAC, &n.MAC, fmt.Sprintf("MAC %s is another node's", n.MAC), "write another, or leave it out")
		}
		if !n.DHCP() {
			unique(r, addresses, n.Address.Addr(), r.addressPlace(n), fmt.Sprintf("address %s is another node's", n.Address.Addr()), "write another")
		}
	}
}

func (r *resolver) addressPlace(n plannedNode) any {
	if n.External {
		return &n.SSH
	}
	return &n.Address
}

// nodeHost checks that the declared hosts include the node's.
func (r *resolver) nodeHost(n plannedNode) {
	declared := r.declared
	if n.External {
		return
	}
	at := any(&n.Host)
	if !r.IsSet(&n.Host) {
		at = &r.spec.Proxmox.Host
	}
	switch {
	case n.Unplaced() && len(declared) == 0:
		r.Wrong(at, "host: auto has nothing to choose from", "write proxmox.hosts with the names of the hosts, e.g. hosts: {pve1: {}, pve2: {}}")
	case n.Unplaced() && n.Adopt:
		r.Wrong(at, fmt.Sprintf("node %s is an existing VM, which has a host already", n.Name), "write host: and the name of the host that has it")
	case n.Unplaced() && len(n.GPUs.PCI) > 0:
		r.Wrong(at, fmt.Sprintf("node %s names its cards but not their host", n.Name), "write host: and the name, or gpus: and how many")
	case n.Unplaced() && len(n.GPUs.Mapping) > 0:
		r.Wrong(at, fmt.Sprintf("node %s names mappings, which host: auto does not follow", n.Name), "write host: and the name of the host that has the cards")
	case !nodeName.MatchString(n.Host):
		r.Wrong(at, fmt.Sprintf("%q cannot be a Proxmox host's name", n.Host), "write the name that the left column of the web interface shows")
	case len(declared) > 0 && r.host(n.Host) == nil && !n.Unplaced():
		r.Wrong(at, fmt.Sprintf("there is no host %q under proxmox.hosts", n.Host), decode.OrSuggest(n.Host, r.hostNames()))
	}
}

// host is a host that the file declares.
func (r *resolver) host(name string) *spec.Host {
	for i := range r.declared {
		if r.declared[i].Name == name {
			return &r.declared[i]
		}
	}
	return nil
}

func (r *resolver) hostNames() []string {
	var out []string
	for _, h := range r.declared {
		out = append(out, h.Name)
	}
	return out
}

func (r *resolver) nodeLabels(n plannedNode) {
	for _, key := range sortedNames(n.Labels) {
		at := r.MemberAt(&n.Labels, key)
		switch {
		case !spec.IsLabelKey(key):
			r.Wrong(at, fmt.Sprintf("%q cannot be a label", key), "write letters, digits, - _ and . after an optional domain and slash, e.g. example.com/room")
		case decode.IsProtectedLabel(key):
			r.Wrong(at, fmt.Sprintf("label %s belongs to Kubernetes", key), "use a domain of your own, e.g. example.com/"+key[strings.LastIndexByte(key, '/')+1:])
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
