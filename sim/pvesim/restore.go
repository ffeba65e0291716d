package pvesim

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Backup is what a backup keeps of a VM: its configuration and what is on its disks.
type Backup struct {
	node  string
	conf  map[string]string
	disks map[string]Disk // by slot; blank ones are left out
}

// Backup backs a VM up, as if somebody had done so on its host.
func (s *Sim) Backup(vmid int) Backup {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	v := s.state.VMs[vmid]
	if v == nil {
		panic(fmt.Sprintf("pvesim: there is no VM %d to back up", vmid))
	}
	b := Backup{v.Node, maps.Clone(v.Conf), map[string]Disk{}}
	for _, k := range world.Drives(v.Conf) {
		if st, name := s.state.Hosts[v.Node].Volume(s.state.Props(k, v.Conf[k])["file"]); st != nil && st.Volumes[name] != nil {
			if disk := st.Volumes[name].Contents(); disk != nil {
				b.disks[k] = disk.Clone()
			}
		}
	}
	return b
}

// Restore makes a VM of a backup, off, with disks of its own, as if somebody had done so on
// its host. Name, tags, description and everything else are those of the backup; so are
// the addresses of its interfaces and its SMBIOS UUID, unless unique asks for new ones
// (restore_update_config_line in PVE/QemuServer.pm of qemu-server 9.2.6). The VMID must be
// free.
func (s *Sim) Restore(b Backup, vmid int, unique bool) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	if s.state.VMs[vmid] != nil {
		panic(fmt.Sprintf("pvesim: VM %d is there already", vmid))
	}
	now := time.Now()
	v := &world.VM{ID: vmid, Node: b.node, Conf: maps.Clone(b.conf), Created: now, Since: now}
	for k, value := range b.conf {
		switch {
		case k == "lock", k == "parent", world.UnusedKey.MatchString(k):
			delete(v.Conf, k)
		case strings.HasPrefix(k, "net") && unique:
			v.Conf[k] = config.NormalNet(s.state, k, value, true)
		case k == "vmgenid":
			v.Conf[k] = s.state.UUID()
		case k == "smbios1" && unique:
			smbios := s.state.Props(k, value)
			smbios["uuid"] = s.state.UUID()
			v.Conf[k] = s.state.PrintProps(k, smbios)
		case world.IsDrive(k):
			v.Conf[k] = restoredDrive(s.state, v, k, value, b.disks[k])
		}
	}
	s.state.VMs[vmid] = v
}

// restoredDrive makes the disk again that a backup had; a CD stays in its drive.
func restoredDrive(s *world.State, v *world.VM, k, value string, kept Disk) string {
	d := s.Props(k, value)
	st, name := s.Hosts[v.Node].Volume(d["file"])
	if world.IsCDROM(d) || st == nil {
		return value
	}
	format := world.FormatOf(st, name)
	name = st.NewName(v.ID, "vm", format)
	vol := &world.Volume{Name: name, Content: "images", Format: format, Size: schema.ParseSize(d["size"]), Owner: v.ID, Made: v.Created}
	if kept != nil {
		vol.Disk = kept.Clone()
	}
	st.Volumes[name] = vol
	d["file"] = st.Name + ":" + name
	return s.PrintProps(k, d)
}
