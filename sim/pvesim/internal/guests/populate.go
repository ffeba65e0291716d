package guests

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/firewall"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Populate puts what the model has beside its hosts into place. A model that
// [model.ParseModel] would refuse may make it panic.
func Populate(s *world.State, m model.Model) {
	for _, p := range m.Pools {
		s.Pools[p.ID] = &world.Pool{Comment: p.Comment}
	}
	for _, group := range m.SecurityGroups {
		firewall.AddGroup(s, group)
	}
	for _, pm := range m.Mappings {
		if pm.USB {
			e := map[string][]string{"map": slices.Clone(pm.Map)}
			if pm.Description != "" {
				e["description"] = []string{pm.Description}
			}
			s.Entries(pci.USBRegister())[pm.ID] = e
			continue
		}
		m := &world.Mapping{ID: pm.ID, Description: pm.Description, Entries: slices.Clone(pm.Map), Flags: map[string]bool{}}
		for k, on := range map[string]bool{"mdev": pm.MDev, "live-migration-capable": pm.LiveMigration} {
			if on {
				m.Flags[k] = true
			}
		}
		s.Mappings[pm.ID] = m
	}
	for _, h := range s.Hosts {
		for _, st := range h.Stores {
			for _, f := range st.Files {
				put(st, f, s.Options.Internet)
			}
		}
	}
	for _, ct := range m.Containers {
		s.Containers[ct.ID] = ct
	}
	for _, v := range m.VMs {
		Adopt(s, v)
		s.VMs[v.ID].Pool = v.Pool
		if v.Name == "" {
			s.VMs[v.ID].Unset("name")
		}
		burn(s, s.VMs[v.ID])
		if v.Image != "" {
			install(s, s.VMs[v.ID], v.Image)
		}
	}
	for _, v := range m.VMs { // linked clones need their templates first
		link(s, s.VMs[v.ID])
	}
}

// burn makes the disc of a VM's cloud-init drive.
func burn(s *world.State, v *world.VM) {
	for _, k := range world.Drives(v.Conf) {
		d := s.Props(k, v.Conf[k])
		if st, name := s.Hosts[v.Node].Volume(d["file"]); st != nil && world.IsCDROM(d) &&
			world.IsCloudInit(d["file"]) && st.Volumes[name] == nil {
			st.Volumes[name] = &world.Volume{Name: name, Content: "images", Format: world.FormatOf(st, name), Size: int64(4 * model.MiB), Owner: v.ID, Made: s.Began}
		}
	}
}

// put makes a file of the model.
func put(st *world.Storage, f model.File, internet guest.Internet) {
	content, name, _ := strings.Cut(f.Name, "/")
	data := []byte(f.Text)
	if f.URL != "" {
		var err error
		if data, err = internet(f.URL); err != nil {
			panic(fmt.Sprintf("pvesim: the model's %s:%s: %v", st.Name, f.Name, err))
		}
	}
	st.PutFile(content, name, data)
	if v := st.Volumes[f.Name]; f.Size > 0 {
		v.Size = int64(f.Size)
	}
}

// install writes an image of the simulated internet onto a VM's first disk.
func install(s *world.State, v *world.VM, url string) {
	data, err := s.Options.Internet(url)
	if err != nil {
		panic(fmt.Sprintf("pvesim: the model's VM %d: %v", v.ID, err))
	}
	disk, err := s.Options.Hypervisor.Open(data)
	if err != nil {
		panic(fmt.Sprintf("pvesim: the model's VM %d: %v", v.ID, err))
	}
	for _, k := range world.Drives(v.Conf) {
		if d := s.Props(k, v.Conf[k]); !world.IsCDROM(d) && k != "efidisk0" && k != "tpmstate0" {
			if _, vol, err := s.Hosts[v.Node].Lookup(d["file"]); err == nil {
				vol.Disk = disk
				return
			}
		}
	}
	panic(fmt.Sprintf("pvesim: the model's VM %d has no disk for its image", v.ID))
}

// link finds the bases of a VM's disks where it is a linked clone: of those the
// volume's name begins with its base's (base-9000-disk-0/vm-101-disk-0).
func link(s *world.State, v *world.VM) {
	for _, k := range world.Drives(v.Conf) {
		st, name := s.Hosts[v.Node].Volume(s.Props(k, v.Conf[k])["file"])
		if st == nil || st.Volumes[name] == nil {
			continue
		}
		below, isClone := baseOf(st, name)
		if vol := st.Volumes[name]; isClone && below != nil && vol.Base == nil {
			vol.Base = below
			below.Clones++
		}
	}
}

// baseOf returns the base of a linked clone by the clone's name: on directories
// 9000/base-9000-disk-0.qcow2/101/vm-101-disk-0.qcow2, elsewhere without the IDs.
func baseOf(st *world.Storage, name string) (below *world.Volume, isClone bool) {
	dir := path.Dir(name)
	if st.FileBased() {
		if strings.Count(name, "/") < 3 {
			return nil, false
		}
		dir = path.Dir(dir)
	}
	return st.Volumes[dir], dir != "."
}
