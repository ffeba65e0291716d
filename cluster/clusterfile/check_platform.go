package clusterfile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// validatePlatform checks the platform against the nodes, and its parts against each other.
func (r *resolver) validatePlatform() {
	r.pools()
	r.reserved()
	r.fileServer()
	r.hostnames()
	r.reached()
	r.classNames()
	r.versionsFit()
	r.viaFleet()
	r.profilesFit()
	r.queuesFit()
	r.replacedValues()
}

// taken are used addresses of the nodes' network, with their owners.
func (r *resolver) taken() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, n := range r.spec.Nodes {
		if !n.DHCP() {
			out[n.Address.Addr()] = "node " + n.Name
		}
		if n.Network.Gateway.IsValid() {
			out[n.Network.Gateway] = "the gateway"
		}
		for _, d := range n.Network.DNS {
			if out[d] == "" {
				out[d] = "a DNS server"
			}
		}
	}
	if v := r.spec.K3s.VIP; v.IsValid() {
		out[v] = "the VIP"
	}
	if nfs := r.spec.Platform.Storage.NFS; nfs != nil {
		if a, err := netip.ParseAddr(nfs.Server); err == nil {
			out[a] = "the NFS server"
		}
	}
	return out
}

// inNodesNetwork reports whether some node's network has the address.
func (r *resolver) inNodesNetwork(a netip.Addr) bool {
	return slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.Network.Prefix.IsValid() && n.Network.Prefix.Contains(a) })
}

// pools checks the load balancer's addresses.
func (r *resolver) pools() {
	lb := r.spec.Platform.LB
	if lb == nil || lb.Kind == spec.LBServiceLB {
		return
	}
	taken := r.taken()
	owners := slices.SortedFunc(maps.Keys(taken), netip.Addr.Compare)
	leased := slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.DHCP() && !n.External })
	for i, p := range lb.Addresses {
		at := &lb.Addresses[i]
		if !p.From.IsValid() {
			continue
		}
		for j, other := range lb.Addresses[:i] {
			if p.Contains(other.From) || other.Contains(p.From) {
				r.Wrong(at, fmt.Sprintf("%s and %s share addresses, in %s", p, other, r.Line(&lb.Addresses[j])), "write separate ranges")
			}
		}
		if len(r.spec.Nodes) > 0 && (!r.inNodesNetwork(p.From) || !r.inNodesNetwork(p.To)) && !leased {
			r.Wrong(at, fmt.Sprintf("%s is outside the nodes' network, where the load balancer answers ARP for its addresses, so no router would find them", p),
				"write an unused range of the nodes' network; BGP, which announces other ones, is not supported")
			continue
		}
		for _, a := range owners {
			if p.Contains(a) {
				r.Wrong(at, fmt.Sprintf("%s contains %s, which belongs to %s", p, a, strings.TrimSuffix(taken[a], "'s")), "write a range without it")
				break
			}
		}
		if a := r.spec.Network.Prefix; a.IsValid() && (p.Contains(a.Masked().Addr()) || p.Contains(spec.LastAddr(a))) && a.Addr().Is4() {
			r.Wrong(at, fmt.Sprintf("%s contains the network address or the broadcast address", p), "write a range without the first and the last address of "+a.String())
		}
		if leased {
			r.Warn(at, "nodes get their addresses from a DHCP server, which must not assign these too", "exclude the range from the DHCP server's")
		}
	}
}

// reserved checks the addresses of single services.
func (r *resolver) reserved() {
	lb := r.spec.Platform.LB
	if lb == nil {
		return
	}
	seen := map[netip.Addr]any{}
	for _, name := range sortedNames(lb.Reserved) {
		at, a := r.MemberAt(&lb.Reserved, name), lb.Reserved[name]
		if namespace, service, ok := strings.Cut(name, "/"); name != "ingress" && (!ok || !decode.DNSLabel.MatchString(namespace) || !decode.DNSLabel.MatchString(service)) {
			r.Wrong(at, fmt.Sprintf("%q is not a service", name), "write namespace/name, or ingress")
		}
		if name == "ingress" && r.spec.Platform.Ingress.Kind == spec.IngressNone {
			r.Wrong(at, "there is no ingress that could have an address", "remove it, or write ingress: traefik")
		}
		if !a.IsValid() {
			continue
		}
		if len(lb.Addresses) > 0 && !slices.ContainsFunc(lb.Addresses, func(p spec.AddressPool) bool { return p.Contains(a) }) {
			r.Wrong(at, fmt.Sprintf("%s is reserved for %s and is not among the load balancer's addresses", a, name), "write one of "+r.poolTexts())
		}
		unique(r, seen, a, any(at), fmt.Sprintf("%s is reserved twice", a), "write another")
	}
}

func (r *resolver) poolTexts() string {
	var out []string
	for _, p := range r.spec.Platform.LB.Addresses {
		out = append(out, p.String())
	}
	return suggest.OneOf(out)
}

// fileServer checks the NFS server's address and, if homelab creates it, its name.
func (r *resolver) fileServer() {
	nfs := r.spec.Platform.Storage.NFS
	if nfs == nil {
		return
	}
	a, err := netip.ParseAddr(nfs.Server)
	at := any(&nfs.Server)
	if vm := nfs.VM; vm != nil {
		at = &vm.Address
		r.fileServerVM(vm)
		r.exported(nfs)
	}
	switch {
	case err != nil: // a name, which only DNS can resolve
	case a == r.spec.K3s.VIP:
		r.Wrong(at, fmt.Sprintf("the NFS server's address %s is the VIP's", a), "write the server's own")
	case r.spec.K3s.PodCIDR.Contains(a), r.spec.K3s.ServiceCIDR.Contains(a):
		r.Wrong(at, fmt.Sprintf("the NFS server's address %s belongs to pods or services, so nodes would never reach it", a), "write the server's own, or other networks under k3s")
	}
}

// exported checks what our NFS server exports, and to whom.
func (r *resolver) exported(nfs *spec.NFS) {
	const onDisk = "write " + spec.ExportRoot + ", or a folder in it: that is where the VM's data disk is"
	if !spec.Within(nfs.Export, spec.ExportRoot) {
		r.Wrong(&nfs.Export, fmt.Sprintf("%s would be on the system disk of the NFS server", nfs.Export), onDisk)
	}
	for i := range nfs.Shares {
		if export := nfs.Shares[i].Export; export != "" && !spec.Within(export, spec.ExportRoot) {
			r.Wrong(&nfs.Shares[i].Export, export+" would be on the system disk of the NFS server", onDisk)
		}
	}
	for _, n := range r.spec.Nodes {
		allowed := func(p netip.Prefix) bool { return p.Contains(n.Address.Addr()) }
		if !n.DHCP() && len(nfs.VM.Allow) > 0 && !slices.ContainsFunc(nfs.VM.Allow, allowed) {
			r.Wrong(&nfs.VM.Allow, fmt.Sprintf("node %s (%s) may not mount what the NFS server exports", n.Name, n.Address.Addr()), "add its network to allow")
			return
		}
	}
}

func (r *resolver) fileServerVM(vm *spec.NFSVM) {
	a := vm.Address.Addr()
	if vm.Host == spec.AnyHost {
		r.Wrong(&vm.Host, "host: auto chooses among hosts for nodes, and the NFS server stays where its data is", "write host: and the name of one")
	}
	if !a.IsValid() || len(r.spec.Nodes) == 0 {
		return
	}
	if !r.spec.Network.Prefix.IsValid() {
		r.Wrong(&vm.Address, "the NFS server has an address of its own, and the file does not say in which network", "write network: with prefix and gateway")
		return
	}
	if p := r.spec.Network.Prefix; !r.insidePrefix(&vm.Address, "the NFS server's address", a, p) {
		return
	}
	for _, n := range r.spec.Nodes {
		if n.Name == vm.Name {
			r.Wrong(&vm.Name, fmt.Sprintf("there is a node %s", vm.Name), "give the NFS server another name")
		}
		switch {
		case !n.DHCP() && n.Address.Addr() == a:
			r.Wrong(&vm.Address, fmt.Sprintf("address %s is node %s's", a, n.Name), "write another")
		case n.Network.Gateway == a:
			r.Wrong(&vm.Address, fmt.Sprintf("address %s is the gateway's", a), "write another")
		}
	}
	if len(r.declared) > 0 && vm.Host != spec.AnyHost && r.host(vm.Host) == nil {
		r.Wrong(&vm.Host, fmt.Sprintf("there is no host %q under proxmox.hosts", vm.Host), decode.OrSuggest(vm.Host, r.hostNames()))
	}
}

// hostnames checks that no two parts have the same hostname.
func (r *resolver) hostnames() {
	seen := map[string]any{}
	check := func(at *string) {
		if *at != "" {
			unique(r, seen, *at, any(at), fmt.Sprintf("%s is the hostname of another part", *at), "write another name for one of them: the name alone selects the part")
		}
	}
	if raw := r.spec.Platform.Rancher; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.Hub; raw != nil {
		check(&raw.Hostname)
	}
	if raw := r.spec.Platform.Monitoring; raw != nil {
		check(&raw.Hostname)
	}
}

// reached checks that parts with a hostname can be reached, and not in the clear.
func (r *resolver) reached() {
	p := r.spec.Platform
	var at []*string
	if p.Rancher != nil {
		at = append(at, &r.spec.Platform.Rancher.Hostname)
	}
	if p.Hub != nil {
		at = append(at, &r.spec.Platform.Hub.Hostname)
	}
	if p.Monitoring != nil && p.Monitoring.Hostname != "" {
		at = append(at, &r.spec.Platform.Monitoring.Hostname)
	}
	for _, a := range at {
		// The hub's own proxy can be a Service with an address; the others have none.
		alone := r.spec.Platform.Hub != nil && a == &r.spec.Platform.Hub.Hostname && (p.LB != nil || !slices.Contains(r.disabled, "servicelb"))
		if p.Ingress.Kind == spec.IngressNone && !alone {
			r.Wrong(a, fmt.Sprintf("nothing routes to %s: there is no ingress", *a), "remove traefik from k3s.disable and ingress: none, or the part")
		}
		if p.TLS == nil && !r.spec.IsLab() {
			r.Warn(a, fmt.Sprintf("people log in to %s without TLS, for the whole network to read", *a), "write tls: self-signed, or a better source")
		}
	}
	if p.TLS != nil && p.TLS.Source == spec.TLSACME {
		for _, a := range at {
			if private := []string{".local", ".lan", ".internal", ".home.arpa", ".test", ".example", ".invalid", ".localhost"}; slices.ContainsFunc(private, func(s string) bool { return strings.HasSuffix(*a, s) }) {
				r.Wrong(a, fmt.Sprintf("no public authority signs certificates for %s, which is not in a public domain", *a), "write a name of a domain of yours, or tls: self-signed")
			}
		}
	}
	if p.TLS == nil && r.IsSet(&r.spec.Platform.TLS) && len(at) == 0 {
		r.Warn(&r.spec.Platform.TLS, "nothing has a hostname, so nothing needs a certificate", "remove tls")
	}
}

// classNames checks the storage classes that parts use.
func (r *resolver) classNames() {
	known := slices.Clone(r.spec.Platform.Storage.Existing)
	for _, c := range r.classes() {
		known = append(known, c.name)
	}
	if !slices.Contains(r.spec.K3s.Disable, "local-storage") {
		known = append(known, platform.LocalPath)
	}
	check := func(at *string, name string) {
		if name == "" || slices.Contains(known, name) || at == nil || *at == "" {
			return
		}
		if name == platform.LocalPath {
			r.Wrong(at, "K3s' local-path is disabled, because "+r.spec.Platform.Storage.Default+" is the default class", "write "+suggest.OneOf(known)+", or storage: {default: local-path}")
			return
		}
		r.Wrong(at, fmt.Sprintf("nothing creates a storage class %q", name), decode.OrSuggest(name, known)+"; classes from elsewhere belong in storage.existing")
	}
	p := r.spec.Platform
	if m := p.Monitoring; m != nil {
		check(&m.StorageClass, m.StorageClass)
	}
	h := p.Hub
	if h == nil {
		return
	}
	check(&r.spec.Platform.Hub.Database.Class, h.Database.Class)
	check(&r.spec.Platform.Hub.Home.Class, h.Home.Class)
	if s := r.spec.Platform.Hub.Scratch; s != nil {
		check(&s.Class, h.Scratch.Class)
	}
	if s := p.Storage.Scratch; s != nil {
		for _, use := range []struct {
			at   *string
			name string
			what string
		}{{&r.spec.Platform.Hub.Database.Class, h.Database.Class, "the hub's users"}, {&r.spec.Platform.Hub.Home.Class, h.Home.Class, "homes"}} {
			if use.name == s.Class {
				r.Wrong(use.at, fmt.Sprintf("%s would be on scratch disks, whose contents may be lost", use.what), "write a class with permanent volumes")
			}
		}
		if p.Storage.Default == s.Class {
			r.Warn(&r.spec.Platform.Storage.Default, "claims that name no class would be on scratch disks, whose contents may be lost", "write default: local-path, or a class with permanent volumes")
		}
	}
}
