package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// storageSection completes and checks storage.
type storageSection struct{ *resolver }

// classNames checks the storage classes that parts use.
func (r storageSection) classNames() {
	known := slices.Clone(r.spec.Platform.Storage.Existing)
	for _, c := range r.classes() {
		known = append(known, c.name)
	}
	if !slices.Contains(r.spec.K3s.Disable, "local-storage") {
		known = append(known, spec.LocalPath)
	}
	check := func(at *string, name string) {
		if name == "" || slices.Contains(known, name) || at == nil || *at == "" {
			return
		}
		if name == spec.LocalPath {
			r.Wrong(at, "K3s' local-path is disabled, because "+r.spec.Platform.Storage.Default+" is the default class",
				"write "+suggest.JoinOr(known)+", or storage: {default: local-path}")
			return
		}
		r.Wrong(at, fmt.Sprintf("nothing creates a storage class %q", name), decode.OrSuggest(name, known)+"; classes from elsewhere belong in storage.existing")
	}
	p := r.spec.Platform
	if m := p.Monitoring; m != nil {
		check(&m.StorageClass, m.StorageClass)
	}
	if l := p.Logs; l != nil {
		check(&l.StorageClass, l.StorageClass)
	}
	if p.Postgres != nil {
		for i := range p.Postgres.Databases {
			check(&p.Postgres.Databases[i].StorageClass, p.Postgres.Databases[i].StorageClass)
		}
	}
	if g := p.ModelGateway; g != nil {
		check(&g.StorageClass, g.StorageClass)
	}
	if c := p.ModelChat; c != nil {
		check(&c.StorageClass, c.StorageClass)
	}
	for i := range p.Models {
		check(&p.Models[i].Class, p.Models[i].Class)
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

func (r storageSection) storage() {
	st := &r.spec.Platform.Storage
	if st.NFS != nil {
		nfsSection(r).nfs(st.NFS)
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
	if st.Proxmox != nil {
		st.Proxmox.CAFile = r.Existing(&st.Proxmox.CAFile, st.Proxmox.CAFile, false)
	}
	r.uniqueClasses()
	r.defaultClass()
}

func (r storageSection) uniqueClasses() {
	seen := map[string]any{}
	for _, c := range r.classes() {
		if !decode.IsDNSName(c.name) {
			r.Wrong(c.at, fmt.Sprintf("%q cannot be a storage class's name", c.name), "write lower-case letters, digits and hyphens")
		}
		if c.name == spec.LocalPath {
			r.Wrong(c.at, "local-path is K3s' own storage class", c.rename)
			continue
		}
		if slices.Contains(r.spec.Platform.Storage.Existing, c.name) {
			r.Wrong(c.at, fmt.Sprintf("storage class %s is created here, but storage.existing lists it as an existing one", c.name), "remove it there, or "+c.rename)
		}
		unique(r.resolver, seen, c.name, c.at, fmt.Sprintf("there is another storage class %s", c.name), c.rename)
	}
}

// defaultClass chooses the default: what the file says, else the only class whose volumes
// survive a node, else K3s' local-path.
func (r storageSection) defaultClass() {
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
		names = append(names, spec.LocalPath)
	}
	switch {
	case st.Default == spec.LocalPath && local:
		st.Default = ""
	case st.Default == spec.LocalPath:
		why, cure := r.missing("local-storage", "name another class")
		r.Wrong(&st.Default, "the default storage class is local-path, which "+why, cure)
	case st.Default != "" && !slices.Contains(names, st.Default):
		r.Wrong(&st.Default, fmt.Sprintf("nothing creates a storage class %q", st.Default), decode.OrSuggest(st.Default, names))
	case st.Default != "":
	case len(shared) > 1:
		r.Wrong(st, fmt.Sprintf("there are %d storage classes that could be the default: %s", len(shared), suggest.JoinOr(shared)),
			"write default: and one of them; claims that name no class need exactly one default")
	case len(shared) == 1:
		st.Default = shared[0]
	case !local && r.needsClass():
		at := any(&r.spec.K3s.Disable)
		if r.bare {
			at = &r.spec.Distribution
		}
		why, cure := r.missing("local-storage", "write storage: {nfs: server:/export}")
		r.Wrong(at, "there is no default storage class: storage defines none, and local-path is one that "+why, cure)
	}
}

// needsClass reports whether some part creates claims.
func (r storageSection) needsClass() bool {
	p := r.spec.Platform
	return p.Hub != nil || p.Monitoring != nil || p.Logs != nil || len(p.Models) > 0 || p.Postgres != nil && len(p.Postgres.Databases) > 0
}

// scratch finds the nodes with a scratch disk, which get the class.
func (r storageSection) scratch(s *spec.Scratch) {
	own := s.Path
	if own != "" && !decode.IsPlace(own) {
		r.Wrong(&s.Path, fmt.Sprintf("%q is not a folder for volumes", own), "write an absolute path of letters, digits and . _ - ~ @ = , :, e.g. /scratch")
		return
	}
	mounts := map[string][]string{} // nodes by the mount point of their scratch disk
	for _, n := range r.spec.Nodes {
		for _, d := range n.Disks {
			if d.Mount == "" || d.Role != spec.RoleScratch && !spec.IsWithin(own, d.Mount) {
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
			r.Wrong(s, fmt.Sprintf("scratch disks are mounted on %s, and volumes are in one place on all nodes",
				suggest.JoinOr(sortedNames(mounts))), "mount them all on the same path, or write path: and one of these")
		}
	} else {
		for mount, nodes := range mounts {
			if spec.IsWithin(own, mount) {
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

func (r storageSection) longhorn(l *spec.Longhorn) {
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
	r.CheckRange(&l.Replicas, "replicas", 1, 20)
	if len(r.spec.Nodes) > 0 && l.Replicas > len(r.spec.Nodes) {
		r.Wrong(&l.Replicas, fmt.Sprintf("%d copies of each volume are requested, and there are %d nodes", l.Replicas, len(r.spec.Nodes)), fmt.Sprintf("write %d or less: copies are on different nodes", len(r.spec.Nodes)))
	}
	held, elsewhere := !r.IsSet(&l.DataPath), ""
	for _, n := range r.spec.Nodes {
		for _, d := range n.Disks {
			switch here := d.Mount != "" && spec.IsWithin(l.DataPath, d.Mount); {
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

func (r storageSection) cephFS(c *spec.CephFS) {
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
	if c.ClusterID != "" && !decode.Matches(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, c.ClusterID) {
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
		if !hasPort || !isHost(strings.Trim(host, "[]")) || !decode.IsPort(port) {
			r.Wrong(&c.Monitors[i], fmt.Sprintf("%q is not a monitor", m), "write address:port, with 6789, or 3300 for the second protocol")
		}
	}
}
