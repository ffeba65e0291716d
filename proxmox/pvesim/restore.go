package pvesim

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// Backup is what a backup keeps of a VM: its configuration. What is on its disks is not
// kept here.
type Backup struct {
	node string
	conf map[string]string
}

// Backup backs a VM up, as if somebody had done so on its host.
func (s *Sim) Backup(vmid int) Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vms[vmid]
	if v == nil {
		panic(fmt.Sprintf("pvesim: there is no VM %d to back up", vmid))
	}
	return Backup{v.node, maps.Clone(v.conf)}
}

// Restore makes a VM of a backup, with new and empty disks, as if somebody had done so on
// its host. Name, tags, description and everything else are those of the backup; so are
// the addresses of its interfaces and its SMBIOS UUID, unless unique asks for new ones
// (restore_update_config_line in PVE/QemuServer.pm of qemu-server 9.2.6). The VMID must be
// free.
func (s *Sim) Restore(b Backup, vmid int, unique bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vms[vmid] != nil {
		panic(fmt.Sprintf("pvesim: VM %d is there already", vmid))
	}
	now := time.Now()
	v := &vm{id: vmid, node: b.node, conf: maps.Clone(b.conf), ctime: now, since: now}
	for k, value := range b.conf {
		switch {
		case k == "lock", k == "parent", unusedKey.MatchString(k):
			delete(v.conf, k)
		case strings.HasPrefix(k, "net") && unique:
			v.conf[k] = s.normalNet(k, value, true)
		case k == "vmgenid":
			v.conf[k] = s.uuid()
		case k == "smbios1" && unique:
			smbios := s.props(k, value)
			smbios["uuid"] = s.uuid()
			v.conf[k] = s.printProps(k, smbios)
		case isDrive(k):
			v.conf[k] = s.restoredDrive(v, k, value)
		}
	}
	s.vms[vmid] = v
}

// restoredDrive makes the disk anew that a backup had; a CD stays in its drive.
func (s *Sim) restoredDrive(v *vm, k, value string) string {
	d := s.props(k, value)
	st, name := s.hosts[v.node].volume(d["file"])
	if isCDROM(d) || st == nil {
		return value
	}
	format := formatOf(st, name)
	name = st.newName(v.id, "vm", format)
	st.volumes[name] = &volume{name: name, content: "images", format: format, size: parseSize(d["size"]), owner: v.id, made: v.ctime}
	d["file"] = st.Name + ":" + name
	return s.printProps(k, d)
}
