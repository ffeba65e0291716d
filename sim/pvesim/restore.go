package pvesim

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// Backup is what a backup keeps of a VM: its configuration and what is on its disks.
type Backup struct {
	node  string
	conf  map[string]string
	disks map[string]Disk // by slot; blank ones are left out
}

// Backup backs a VM up, as if somebody had done so on its host.
func (s *Sim) Backup(vmid int) Backup {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	v := s.state.vms[vmid]
	if v == nil {
		panic(fmt.Sprintf("pvesim: there is no VM %d to back up", vmid))
	}
	b := Backup{v.node, maps.Clone(v.conf), map[string]Disk{}}
	for _, k := range drives(v.conf) {
		if st, name := s.state.hosts[v.node].volume(s.state.props(k, v.conf[k])["file"]); st != nil && st.volumes[name] != nil {
			if disk := st.volumes[name].contents(); disk != nil {
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
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.vms[vmid] != nil {
		panic(fmt.Sprintf("pvesim: VM %d is there already", vmid))
	}
	now := time.Now()
	v := &vm{id: vmid, node: b.node, conf: maps.Clone(b.conf), ctime: now, since: now}
	for k, value := range b.conf {
		switch {
		case k == "lock", k == "parent", unusedKey.MatchString(k):
			delete(v.conf, k)
		case strings.HasPrefix(k, "net") && unique:
			v.conf[k] = s.state.normalNet(k, value, true)
		case k == "vmgenid":
			v.conf[k] = s.state.uuid()
		case k == "smbios1" && unique:
			smbios := s.state.props(k, value)
			smbios["uuid"] = s.state.uuid()
			v.conf[k] = s.state.printProps(k, smbios)
		case isDrive(k):
			v.conf[k] = s.state.restoredDrive(v, k, value, b.disks[k])
		}
	}
	s.state.vms[vmid] = v
}

// restoredDrive makes the disk again that a backup had; a CD stays in its drive.
func (s *state) restoredDrive(v *vm, k, value string, kept Disk) string {
	d := s.props(k, value)
	st, name := s.hosts[v.node].volume(d["file"])
	if isCDROM(d) || st == nil {
		return value
	}
	format := formatOf(st, name)
	name = st.newName(v.id, "vm", format)
	vol := &volume{name: name, content: "images", format: format, size: parseSize(d["size"]), owner: v.id, made: v.ctime}
	if kept != nil {
		vol.disk = kept.Clone()
	}
	st.volumes[name] = vol
	d["file"] = st.Name + ":" + name
	return s.printProps(k, d)
}
