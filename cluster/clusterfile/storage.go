package clusterfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

func (r *resolver) storage() {
	st := &r.spec.Platform.Storage
	if st.NFS != nil {
		r.nfs(st.NFS)
		r.spec.TemplatesBeside()
	}
	if st.Scratch != nil {
		r.scratch(st.Scratch)
	}
	if st.Longhorn != nil {
		r.longhorn(st.Longhorn)
	}
	if st.CephFS != nil {
		r.cephFS(st.CephFS)
	}
	r.uniqueClasses()
	r.defaultClass()
}

// class is one storage class that the file creates.
type class struct {
	name   string
	at     any  // of its name, or of the section that creates it
	shared bool // its volumes survive a node and every node can mount them
	nfs    bool
}

// classes lists those that the file creates, in the order of the sections.
func (r *resolver) classes() []class {
	st := r.spec.Platform.Storage
	var out []class
	add := func(name string, own *string, section any, shared, nfs bool) {
		at := any(own)
		if !r.IsSet(own) {
			at = section
		}
		out = append(out, class{name, at, shared, nfs})
	}
	if st.NFS != nil {
		add(st.NFS.Class, &st.NFS.Class, st.NFS, true, true)
	}
	if st.Longhorn != nil {
		add(st.Longhorn.Class, &st.Longhorn.Class, st.Longhorn, true, false)
	}
	if st.CephFS != nil {
		add(st.CephFS.Class, &st.CephFS.Class, st.CephFS, true, false)
	}
	if st.Scratch != nil {
		add(st.Scratch.Class, &st.Scratch.Class, st.Scratch, false, false)
	}
	return out
}

func (r *resolver) uniqueClasses() {
	seen := map[string]any{}
	for _, c := range r.classes() {
		if !decode.IsDNSName(c.name) {
			r.Wrong(c.at, fmt.Sprintf("%q cannot be a storage class's name", c.name), "write lower-case letters, digits and hyphens")
		}
		if c.name == platform.LocalPath {
			r.Wrong(c.at, "local-path is K3s' own storage class", "write class: and another name")
			continue
		}
		if slices.Contains(r.spec.Platform.Storage.Existing, c.name) {
			r.Wrong(c.at, fmt.Sprintf("storage class %s is created here, but storage.existing lists it as an existing one", c.name), "remove it there, or write class: and another name")
		}
		unique(r, seen, c.name, c.at, fmt.Sprintf("there is another storage class %s", c.name), "write class: and another name")
	}
}

// defaultClass chooses the default: what the file says, else the only class whose volumes
// survive a node, else K3s' local-path.
func (r *resolver) defaultClass() {
	st := &r.spec.Platform.Storage
	var shared, names []string
	for _, c := range r.classes() {
		names = append(names, c.name)
		if c.shared {
			shared = append(shared, c.name)
		}
	}
	names = append(names, st.Existing...)
	local := !slices.Contains(r.disabled, "local-storage")
	if local {
		names = append(names, platform.LocalPath)
	}
	switch {
	case st.Default == platform.LocalPath && local:
		st.Default = ""
	case st.Default == platform.LocalPath:
		r.Wrong(&st.Default, "local-path is the default storage class, and k3s.disable disables it", "remove local-storage from k3s.disable, or name another class")
	case st.Default != "" && !slices.Contains(names, st.Default):
		r.Wrong(&st.Default, fmt.Sprintf("nothing creates a storage class %q", st.Default), decode.OrSuggest(st.Default, names))
	case st.Default != "":
	case len(shared) > 1:
		r.Wrong(st, fmt.Sprintf("there are %d storage classes that could be the default: %s", len(shared), suggest.OneOf(shared)), "write default: and one of them; claims that name no class need exactly one default")
	case len(shared) == 1:
		st.Default = shared[0]
	case !local && r.needsClass():
		r.Wrong(&r.spec.K3s.Disable, "there is no default storage class: k3s.disable disables local-path, and storage defines none", "write storage: {nfs: server:/export}, or remove local-storage from k3s.disable")
	}
}

// needsClass reports whether some part creates claims.
func (r *resolver) needsClass() bool {
	return r.spec.Platform.Hub != nil || r.spec.Platform.Monitoring != nil
}

func (r *resolver) nfs(n *spec.NFS) {
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
	for i := range n.Shares {
		s := &n.Shares[i]
		r.mountOptions(s.MountOptions)
		if !r.IsSet(&s.MountOptions) {
			s.MountOptions = n.MountOptions
		}
		if !decode.DNSLabel.MatchString(s.Name) {
			r.Wrong(s, fmt.Sprintf("%q cannot be a share's name", s.Name), "write lower-case letters, digits and hyphens")
		}
		if s.Export == "" {
			r.Wrong(&s.Export, fmt.Sprintf("share %s has no path on the server", s.Name), "write export: and an absolute path, e.g. /export/"+s.Name)
		}
		r.exportPath(&s.Export, s.Export)
	}
}

// nfsServer reads server and export, which may be written together as server:/export.
func (r *resolver) nfsServer(n *spec.NFS) {
	together := n.Export == ""
	if server, export, ok := strings.Cut(n.Server, ":/"); ok {
		if export = "/" + export; n.Export != "" && n.Export != export {
			r.Wrong(&n.Export, fmt.Sprintf("server says the export %s and export says %s", export, n.Export), "keep one of them")
		}
		n.Server, n.Export = strings.Trim(server, "[]"), export
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

func (r *resolver) exportPath(at *string, path string) {
	if path != "" && path != "/" && (!decode.IsPlace(path) || strings.ContainsAny(path, ",:")) {
		r.Wrong(at, fmt.Sprintf("%q is not a path of an export", path), "write an absolute path of letters, digits and . _ - ~ @ =, e.g. /export/k3s")
	}
}

func (r *resolver) mountOptions(options []string) {
	for i, o := range options {
		if !matches(`^[A-Za-z0-9_.=:/+-]+$`, o) {
			r.Wrong(&options[i], fmt.Sprintf("%q is not a mount option", o), "write one an item, e.g. [nfsvers=4.2, noatime]")
		}
	}
}

func (r *resolver) nfsVM(vm *spec.NFSVM) {
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
	r.within(&vm.Cores, "cores", 1, 1024)
	if vm.Memory < 512*spec.MiB {
		r.Wrong(&vm.Memory, fmt.Sprintf("%s of memory is too little for a server", vm.Memory), "write 1GiB or more")
	}
}

// scratch finds the nodes with a scratch disk, which get the class.
func (r *resolver) scratch(s *spec.Scratch) {
	own := s.Path
	if own != "" && !decode.IsPlace(own) {
		r.Wrong(&s.Path, fmt.Sprintf("%q is not a folder for volumes", own), "write an absolute path of letters, digits and . _ - ~ @ = , :, e.g. /scratch")
		return
	}
	mounts := map[string][]string{} // nodes by the mount point of their scratch disk
	for _, n := range r.spec.Nodes {
		for _, d := range n.Disks {
			if d.Mount == "" || d.Role != spec.RoleScratch && !spec.Within(own, d.Mount) {
				continue
			}
			mounts[d.Mount] = append(mounts[d.Mount], n.Name)
		}
	}
	if own == "" {
		for mount, nodes := range mounts {
			s.Path, s.Nodes = mount, nodes
		}
		if len(mounts) > 1 {
			r.Wrong(s, fmt.Sprintf("scratch disks are mounted on %s, and volumes are in one place on all nodes", suggest.OneOf(sortedNames(mounts))), "mount them all on the same path, or write path: and one of these")
		}
	} else {
		for mount, nodes := range mounts {
			if spec.Within(own, mount) {
				s.Nodes = append(s.Nodes, nodes...)
			}
		}
	}
	slices.Sort(s.Nodes)
	if len(s.Nodes) == 0 {
		at := any(&s.Path)
		if own == "" {
			at = s
		}
		where := "anywhere"
		if own != "" {
			where = "on " + own
		}
		r.Wrong(at, fmt.Sprintf("no node has a scratch disk that is mounted %s", where), "write disks: {scratch: {size: 500GiB, mount: "+cmp.Or(own, "/scratch")+"}} in the pool that should have it")
	}
}

func (r *resolver) longhorn(l *spec.Longhorn) {
	if !decode.IsPlace(l.DataPath) {
		r.Wrong(&l.DataPath, fmt.Sprintf("%q is not a folder for data", l.DataPath), "write an absolute path of letters, digits and . _ - ~ @ = , :, e.g. /var/lib/longhorn")
	}
	holders := 0
	for _, n := range r.spec.Nodes {
		if n.Role == spec.Agent {
			holders++
		}
	}
	if holders == 0 {
		holders = len(r.spec.Nodes)
	}
	if !r.IsSet(&l.Replicas) {
		l.Replicas = min(3, max(holders, 1))
	}
	r.within(&l.Replicas, "replicas", 1, 20)
	if len(r.spec.Nodes) > 0 && l.Replicas > len(r.spec.Nodes) {
		r.Wrong(&l.Replicas, fmt.Sprintf("%d copies of each volume are requested, and there are %d nodes", l.Replicas, len(r.spec.Nodes)), fmt.Sprintf("write %d or less: copies are on different nodes", len(r.spec.Nodes)))
	}
	held, elsewhere := !r.IsSet(&l.DataPath), ""
	for _, n := range r.spec.Nodes {
		for _, d := range n.Disks {
			switch here := d.Mount != "" && spec.Within(l.DataPath, d.Mount); {
			case here && d.Role == spec.RoleScratch:
				r.Wrong(&l.DataPath, fmt.Sprintf("data would be on the scratch disk of %s, whose contents may be lost", n.Name), "write role: data on that disk, or another path")
				return
			case here:
				held = true
			case d.Role == spec.RoleData:
				elsewhere = cmp.Or(elsewhere, d.Mount)
			}
		}
	}
	if !held && elsewhere != "" {
		r.Warn(&l.DataPath, fmt.Sprintf("no disk is mounted on %s, so volumes are on the system disks; disks are mounted on %s", l.DataPath, elsewhere), "write path: "+elsewhere+", or mount the disks on "+l.DataPath)
	}
}

func (r *resolver) cephFS(c *spec.CephFS) {
	for _, k := range []struct {
		at         *string
		what, cure string
	}{
		{&c.ClusterID, "clusterID", "the output of ceph fsid"}, {&c.FSName, "fsName", "a name that ceph fs ls shows"}, {&c.User, "user", "a Ceph user without client. before it"},
	} {
		if *k.at == "" {
			r.Wrong(k.at, "storage.cephfs has no "+k.what, "write "+k.what+": and "+k.cure)
		}
	}
	if c.ClusterID != "" && !matches(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, c.ClusterID) {
		r.Wrong(&c.ClusterID, fmt.Sprintf("%q is not an fsid", c.ClusterID), "write the output of ceph fsid")
	}
	if name, ok := strings.CutPrefix(c.User, "client."); ok {
		r.Wrong(&c.User, "ceph-csi puts client. before the user itself", "write user: "+name)
	}
	if !r.IsSet(&c.Key) {
		r.Wrong(&c.Key, "storage.cephfs has no key", "write key: file:PATH or env:NAME with the output of ceph auth get-key client.USER")
	}
	if len(c.Monitors) == 0 {
		r.Wrong(&c.Monitors, "storage.cephfs has no monitors", "write monitors: [10.0.0.41:6789, …] as in ceph mon dump")
	}
	for i, m := range c.Monitors {
		host, port, hasPort := decode.CutLast(m, ":")
		if !hasPort || !isHost(strings.Trim(host, "[]")) || !isPort(port) {
			r.Wrong(&c.Monitors[i], fmt.Sprintf("%q is not a monitor", m), "write address:port, with 6789, or 3300 for the second protocol")
		}
	}
}
