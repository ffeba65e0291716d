package pvesim

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
)

// populate puts what the model has beside its hosts into place. A model that
// [ParseModel] would refuse may make it panic.
func (s *state) populate(m Model) {
	for _, p := range m.Pools {
		s.pools[p.ID] = &pool{comment: p.Comment}
	}
	for _, pm := range m.Mappings {
		m := &mapping{id: pm.ID, description: pm.Description, entries: slices.Clone(pm.Map), flags: map[string]bool{}}
		for k, on := range map[string]bool{"mdev": pm.MDev, "live-migration-capable": pm.LiveMigration} {
			if on {
				m.flags[k] = true
			}
		}
		s.mappings[pm.ID] = m
	}
	for _, h := range s.hosts {
		for _, st := range h.storages {
			for _, f := range st.Files {
				st.put(f, s.opts.Internet)
			}
		}
	}
	for _, v := range m.VMs {
		s.adopt(v)
		s.vms[v.ID].pool = v.Pool
		if v.Name == "" {
			s.vms[v.ID].unset("name")
		}
		s.burn(s.vms[v.ID])
		if v.Image != "" {
			s.install(s.vms[v.ID], v.Image)
		}
	}
	for _, v := range m.VMs { // linked clones need their templates first
		s.link(s.vms[v.ID])
	}
}

// burn makes the disc of a VM's cloud-init drive.
func (s *state) burn(v *vm) {
	for _, k := range drives(v.conf) {
		d := s.props(k, v.conf[k])
		if st, name := s.hosts[v.node].volume(d["file"]); st != nil && isCDROM(d) && isCloudInit(d["file"]) && st.volumes[name] == nil {
			st.volumes[name] = &volume{name: name, content: "images", format: formatOf(st, name), size: int64(4 * MiB), owner: v.id, made: s.began}
		}
	}
}

// put makes a file of the model.
func (st *storage) put(f File, internet guest.Internet) {
	content, name, _ := strings.Cut(f.Name, "/")
	data := []byte(f.Text)
	if f.URL != "" {
		var err error
		if data, err = internet(f.URL); err != nil {
			panic(fmt.Sprintf("pvesim: the model's %s:%s: %v", st.Name, f.Name, err))
		}
	}
	st.putFile(content, name, data)
	if v := st.volumes[f.Name]; f.Size > 0 {
		v.size = int64(f.Size)
	}
}

// install writes an image of the simulated internet onto a VM's first disk.
func (s *state) install(v *vm, url string) {
	data, err := s.opts.Internet(url)
	if err != nil {
		panic(fmt.Sprintf("pvesim: the model's VM %d: %v", v.id, err))
	}
	disk, err := s.opts.Hypervisor.Open(data)
	if err != nil {
		panic(fmt.Sprintf("pvesim: the model's VM %d: %v", v.id, err))
	}
	for _, k := range drives(v.conf) {
		if d := s.props(k, v.conf[k]); !isCDROM(d) && k != "efidisk0" && k != "tpmstate0" {
			if _, vol, err := s.hosts[v.node].lookup(d["file"]); err == nil {
				vol.disk = disk
				return
			}
		}
	}
	panic(fmt.Sprintf("pvesim: the model's VM %d has no disk for its image", v.id))
}

// link finds the bases of a VM's disks where it is a linked clone: of those the
// volume's name begins with its base's (base-9000-disk-0/vm-101-disk-0).
func (s *state) link(v *vm) {
	for _, k := range drives(v.conf) {
		st, name := s.hosts[v.node].volume(s.props(k, v.conf[k])["file"])
		if st == nil || st.volumes[name] == nil {
			continue
		}
		below, isClone := st.baseOf(name)
		if vol := st.volumes[name]; isClone && below != nil && vol.base == nil {
			vol.base = below
			below.clones++
		}
	}
}

// baseOf returns the base of a linked clone by the clone's name: on directories
// 9000/base-9000-disk-0.qcow2/101/vm-101-disk-0.qcow2, elsewhere without the IDs.
func (st *storage) baseOf(name string) (below *volume, isClone bool) {
	dir := path.Dir(name)
	if st.fileBased() {
		if strings.Count(name, "/") < 3 {
			return nil, false
		}
		dir = path.Dir(dir)
	}
	return st.volumes[dir], dir != "."
}
