package clusterfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// nfsSection completes and checks storage.nfs.
type nfsSection struct{ *resolver }

// fileServer checks the NFS server's address and, if homelab creates it, its name.
func (r nfsSection) fileServer() {
	nfs := r.spec.Platform.Storage.NFS
	if nfs == nil {
		return
	}
	a, err := netip.ParseAddr(nfs.Server)
	at := any(&nfs.Server)
	if vm := nfs.VM; vm != nil {
		at = &vm.Address
		r.fileServerVM(vm)
		r.checkExport(nfs)
	}
	switch {
	case err != nil: // a name, which only DNS can resolve
	case a == r.spec.K3s.VIP:
		r.Wrong(at, fmt.Sprintf("the NFS server's address %s is the VIP's", a), "write the server's own")
	case r.spec.K3s.PodCIDR.Contains(a), r.spec.K3s.ServiceCIDR.Contains(a):
		r.Wrong(at, fmt.Sprintf("the NFS server's address %s belongs to pods or services, so nodes would never reach it", a), "write the server's own, or other networks under k3s")
	}
}

// checkExport checks what our NFS server exports, and to whom.
func (r nfsSection) checkExport(nfs *spec.NFS) {
	const onDisk = "write " + spec.ExportRoot + ", or a folder in it: that is where the VM's data disk is"
	if !spec.IsWithin(nfs.Export, spec.ExportRoot) {
		r.Wrong(&nfs.Export, fmt.Sprintf("%s would be on the system disk of the NFS server", nfs.Export), onDisk)
	}
	inside := func(server string, export *string) {
		if server == "" && *export != "" && !spec.IsWithin(*export, spec.ExportRoot) {
			r.Wrong(export, *export+" would be on the system disk of the NFS server", onDisk)
		}
	}
	for i := range nfs.Classes {
		inside(nfs.Classes[i].Server, &nfs.Classes[i].Export)
	}
	for i := range nfs.Shares {
		inside(nfs.Shares[i].Server, &nfs.Shares[i].Export)
	}
	for _, n := range r.spec.Nodes {
		allowed := func(p netip.Prefix) bool { return p.Contains(n.Address.Addr()) }
		if !n.DHCP() && len(nfs.VM.Allow) > 0 && !slices.ContainsFunc(nfs.VM.Allow, allowed) {
			r.Wrong(&nfs.VM.Allow, fmt.Sprintf("node %s (%s) may not mount what the NFS server exports", n.Name, n.Address.Addr()), "add its network to allow")
			return
		}
	}
}

func (r nfsSection) fileServerVM(vm *spec.NFSVM) {
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
	if p := r.spec.Network.Prefix; !(networkSection(r)).insidePrefix(&vm.Address, "the NFS server's address", a, p) {
		return
	}
	for _, n := range r.machines() {
		if n.Name == vm.Name {
			r.Wrong(&vm.Name, fmt.Sprintf("there is another machine %s", vm.Name), "give the NFS server another name")
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

func (r nfsSection) nfs(n *spec.NFS) {
	r.mountOptions(n.MountOptions)
	if n.VM != nil {
		if n.Server != "" {
			r.Wrong(&n.Server, "the NFS server is both a new VM and an existing server", "keep one of server and vm")
		}
		r.nfsVM(n.VM)
		n.Server, n.Export = n.VM.Address.Addr().String(), cmp.Or(n.Export, spec.ExportRoot)
	} else {
		r.nfsServer(n)
	}
	r.exportPath(&n.Export, n.Export)
	for i := range n.Classes {
		c := &n.Classes[i]
		r.folder("class", c.Name, &c.Server, &c.Export)
		c.Retain = c.Retain.Or(n.Retain.IsOn())
		r.mountOptions(c.MountOptions)
		if !r.IsSet(&c.MountOptions) {
			c.MountOptions = n.MountOptions
		}
	}
	for i := range n.Shares {
		s := &n.Shares[i]
		r.folder("share", s.Name, &s.Server, &s.Export)
		r.namespaces(s)
		r.mountOptions(s.MountOptions)
		if !r.IsSet(&s.MountOptions) {
			s.MountOptions = n.MountOptions
		}
		if !decode.DNSLabel.MatchString(s.Name) {
			r.Wrong(s, fmt.Sprintf("%q cannot be a share's name", s.Name), "write lower-case letters, digits and hyphens")
		}
	}
}

// folder reads where a share or a class is: on another server, if its export or server says so.
func (r nfsSection) folder(kind, name string, server, path *string) {
	if host, rest, ok := cutExport(*path); ok && *server == "" {
		*server, *path = host, rest
		if !isHost(host) {
			r.Wrong(path, fmt.Sprintf("%q is neither a name nor an address of a server", host), "write e.g. 10.0.0.31:/export/"+name)
		}
	} else if *server != "" && !isHost(*server) {
		r.Wrong(server, fmt.Sprintf("%q is neither a name nor an address of a server", *server), "write e.g. 10.0.0.31")
	}
	if *path == "" {
		r.Wrong(path, fmt.Sprintf("%s %s has no path on the server", kind, name), "write export: and an absolute path, e.g. /export/"+name)
	}
	r.exportPath(path, *path)
}

// namespaces checks who may mount a share.
func (r nfsSection) namespaces(s *spec.Share) {
	for i, n := range s.Namespaces {
		if !decode.DNSLabel.MatchString(n) {
			r.Wrong(&s.Namespaces[i], fmt.Sprintf("%q cannot be a namespace", n), "write lower-case letters, digits and hyphens")
		} else if slices.Contains(s.Namespaces[:i], n) {
			r.Wrong(&s.Namespaces[i], fmt.Sprintf("namespace %s is listed twice", n), "remove one")
		}
	}
}

// cutExport divides server:/export. An IPv6 address is in brackets there.
func cutExport(text string) (server, export string, ok bool) {
	server, export, ok = strings.Cut(text, ":/")
	return strings.Trim(server, "[]"), "/" + export, ok
}

// nfsServer reads server and export, which may be written together as server:/export.
func (r nfsSection) nfsServer(n *spec.NFS) {
	together := n.Export == ""
	if server, export, ok := cutExport(n.Server); ok {
		if n.Export != "" && n.Export != export {
			r.Wrong(&n.Export, fmt.Sprintf("server says the export %s and export says %s", export, n.Export), "keep one of them")
		}
		n.Server, n.Export = server, export
	}
	switch {
	case n.Server == "":
		r.Wrong(&n.Server, "storage.nfs has no server", "write nfs: address:/export, or vm: to have one created")
		return
	case !isHost(n.Server):
		r.Wrong(&n.Server, fmt.Sprintf("%q is neither a name nor an address of a server", n.Server), "write e.g. 10.0.0.30:/export/k3s")
	case n.Export == "":
		r.Wrong(&n.Export, fmt.Sprintf("the file does not say which folder of %s is used", n.Server), "write export: and the path that showmount -e "+n.Server+" lists")
	}
	if together {
		r.exportPath(&n.Server, n.Export)
	}
}

func (r nfsSection) exportPath(at *string, path string) {
	if path != "" && path != "/" && (!decode.IsPlace(path) || strings.ContainsAny(path, ",:")) {
		r.Wrong(at, fmt.Sprintf("%q is not a path of an export", path), "write an absolute path of letters, digits and . _ - ~ @ =, e.g. /export/k3s")
	}
}

func (r nfsSection) mountOptions(options []string) {
	for i, o := range options {
		if !decode.Matches(`^[A-Za-z0-9_.=:/+-]+$`, o) {
			r.Wrong(&options[i], fmt.Sprintf("%q is not a mount option", o), "write one an item, e.g. [nfsvers=4.2, noatime]")
		}
	}
}

func (r nfsSection) nfsVM(vm *spec.NFSVM) {
	r.storageName(&vm.Storage)
	vm.Name, vm.Host = cmp.Or(vm.Name, r.spec.Name+"-nfs"), cmp.Or(vm.Host, r.defaultHost())
	vm.Storage = cmp.Or(vm.Storage, r.defaultStorage())
	p := r.spec.Network.Prefix
	if a := vm.Address.Addr(); p.IsValid() && p.Addr().BitLen() == a.BitLen() {
		vm.Address = netip.PrefixFrom(a, p.Bits())
	}
	if len(vm.Allow) == 0 && p.IsValid() {
		vm.Allow = []netip.Prefix{p.Masked()}
	}
	if !vm.Address.IsValid() {
		r.Wrong(&vm.Address, "the NFS server's VM has no address", "write address: and a free one of the nodes' network")
	}
	if vm.Size < spec.GiB {
		r.Wrong(&vm.Size, "the NFS server's VM has no data disk", "write size: 2TiB, or how much data there will be")
	}
	if !decode.DNSLabel.MatchString(vm.Name) {
		r.Wrong(&vm.Name, fmt.Sprintf("%q cannot be a VM's name", vm.Name), "write lower-case letters, digits and hyphens")
	}
	r.CheckRange(&vm.Cores, "cores", 1, 1024)
	if vm.Memory < 512*spec.MiB {
		r.Wrong(&vm.Memory, fmt.Sprintf("%s of memory is too little for a server", vm.Memory), "write 1GiB or more")
	}
}
