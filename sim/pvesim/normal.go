package pvesim

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// normal is how an option's value is written down.
func (s *state) normal(key, value string) string {
	switch {
	case key == "tags":
		return normalTags(value)
	case strings.HasPrefix(key, "net") && s.configKeys()[key].Format.Keys != nil:
		return s.normalNet(key, value, false)
	}
	return value
}

// normalNet writes a network card: model=MAC first. fresh gives it a new address.
func (s *state) normalNet(key, value string, fresh bool) string {
	d := s.props(key, value)
	mac := d["macaddr"]
	if mac == "" || fresh {
		mac = s.mac()
	}
	parts := []string{d["model"] + "=" + mac}
	delete(d, "model")
	delete(d, "macaddr")
	for _, k := range slices.Sorted(maps.Keys(d)) {
		parts = append(parts, k+"="+d[k])
	}
	return strings.Join(parts, ",")
}

// normalTags sorts tags, in lower case, once each.
func normalTags(s string) string {
	tags := splitList(strings.ToLower(s))
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ";")
}

// options are those of a call's parameters that are options of a VM.
func (c *call) options() map[string]string {
	out := map[string]string{}
	for k, v := range c.p {
		if !noOptions[k] && len(v) > 0 {
			out[k] = v[0]
		}
	}
	return out
}

// noOptions are parameters of the config methods that are no options of a VM.
var noOptions = map[string]bool{"node": true, "vmid": true, "digest": true, "delete": true, "revert": true, "force": true, "skiplock": true,
	"background_delay": true, "pool": true, "storage": true, "start": true, "unique": true, "archive": true, "bwlimit": true,
	"import-working-storage": true, "live-restore": true, "ha-managed": true, "with-conntrack-state": true}

// locked does something to a configuration while its file is locked.
func (w worker) locked(v *vm, do func() error) error {
	unlock, err := w.lock(configLock(v.id), false, configLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	if w.s.vms[v.id] != v {
		return die("unable to find configuration file for VM %d on node '%s'", v.id, v.node)
	}
	return do()
}

// disks are the drives of a configuration that are none for CDs: a cloud-init drive
// is one (PVE/QemuServer/Drive.pm, drive_is_cdrom).
func (s *state) disks(conf map[string]string) []string {
	return slices.DeleteFunc(drives(conf), func(k string) bool { return isCDROM(s.props(k, conf[k])) })
}

// carried are the drives whose volumes go where the VM goes: disks, and its
// cloud-init drive.
func (s *state) carried(conf map[string]string) []string {
	return slices.DeleteFunc(drives(conf), func(k string) bool {
		d := s.props(k, conf[k])
		return isCDROM(d) && !isCloudInit(d["file"])
	})
}

// canSnapshot reports whether all the disks are where snapshots can be taken:
// files must be qcow2 for that (PVE/Storage/Plugin.pm, volume_has_feature).
func (s *state) canSnapshot(v *vm, conf map[string]string) bool {
	return !slices.ContainsFunc(s.disks(conf), func(k string) bool {
		st, vol, err := s.hosts[v.node].lookup(s.props(k, conf[k])["file"])
		return err != nil || st.fileBased() && vol.format != "qcow2" || st.Type == "lvm"
	})
}

// linkable reports whether a disk can be the base of a linked clone. In a file that
// is a qcow2, whatever the base is.
func linkable(v *volume) bool { return strings.HasPrefix(path.Base(v.name), "base-") }

// snapshotted is a snapshot's section of the configuration file.
func (s *state) snapshotted(sn *snapshot) map[string]any {
	out := map[string]any{"snaptime": sn.made.Unix()}
	for k, value := range sn.conf {
		out[k] = s.typed(k, value)
	}
	for k, value := range map[string]string{"description": sn.description, "parent": sn.parent, "snapstate": sn.state} {
		if value != "" {
			out[k] = value
		}
	}
	return out
}

func (v *vm) keptBySnapshot(volid string) bool {
	for _, sn := range v.snapshots {
		if _, there := sn.disks[volid]; there {
			return true
		}
	}
	return false
}
