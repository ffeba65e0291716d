package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Normal is how an option's value is written down.
func Normal(s *world.State, key, value string) string {
	switch {
	case key == "tags":
		return normalTags(value)
	case strings.HasPrefix(key, "net") && s.ConfigKeys()[key].Format.Keys != nil:
		return NormalNet(s, key, value, false)
	}
	return value
}

// NormalNet writes a network card: model=MAC first. fresh gives it a new address.
func NormalNet(s *world.State, key, value string, fresh bool) string {
	d := s.Props(key, value)
	mac := d["macaddr"]
	if mac == "" || fresh {
		mac = s.MAC()
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
	tags := schema.SplitList(strings.ToLower(s))
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ";")
}

// Options are those of a call's parameters that are options of a VM.
func Options(c *world.Call) map[string]string {
	out := map[string]string{}
	for k, v := range c.Params {
		if !noOptions[k] && len(v) > 0 {
			out[k] = v[0]
		}
		if v := out[k]; v == request.Null && (k == "tags" || k == "description") { // read before they are written
			out[k] = ""
		}
	}
	return out
}

// noOptions are parameters of the config methods that are no options of a VM.
var noOptions = map[string]bool{"node": true, "vmid": true, "digest": true, "delete": true, "revert": true, "force": true, "skiplock": true,
	"background_delay": true, "pool": true, "storage": true, "start": true, "unique": true, "archive": true, "bwlimit": true,
	"import-working-storage": true, "live-restore": true, "ha-managed": true, "with-conntrack-state": true}

// WithLock does something to a configuration while its file is locked.
func WithLock(w world.Worker, v *world.VM, do func() error) error {
	unlock, err := w.Lock(world.ConfigLock(v.ID), false, world.ConfigLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	if w.State.VMs[v.ID] != v {
		return answer.Die("unable to find configuration file for VM %d on node '%s'", v.ID, v.Node)
	}
	return do()
}

// Disks are the drives of a configuration that are none for CDs: a cloud-init drive
// is one (PVE/QemuServer/Drive.pm, drive_is_cdrom).
func Disks(s *world.State, conf map[string]string) []string {
	return slices.DeleteFunc(world.Drives(conf), func(k string) bool { return world.IsCDROM(s.Props(k, conf[k])) })
}

// OwnDrives are the drives whose volumes go where the VM goes: disks, and its
// cloud-init drive.
func OwnDrives(s *world.State, conf map[string]string) []string {
	return slices.DeleteFunc(world.Drives(conf), func(k string) bool {
		d := s.Props(k, conf[k])
		return world.IsCDROM(d) && !world.IsCloudInit(d["file"])
	})
}

// Have reports whether all the disks of a configuration have a feature: clone, copy or
// snapshot (PVE/QemuConfig.pm, has_feature).
func Have(s *world.State, v *world.VM, conf map[string]string, feature string, snap bool) bool {
	return !slices.ContainsFunc(Disks(s, conf), func(k string) bool {
		st, vol, err := s.Hosts[v.Node].Lookup(s.Props(k, conf[k])["file"])
		return err != nil || !st.Has(feature, vol.Name, snap)
	})
}

// SnapshotSection is a snapshot's section of the configuration file.
func SnapshotSection(s *world.State, sn *world.Snapshot) map[string]any {
	out := map[string]any{"snaptime": sn.Made.Unix()}
	for k, value := range sn.Conf {
		out[k] = s.ConfigValue(k, value)
	}
	for k, value := range map[string]string{"description": sn.Description, "parent": sn.Parent, "snapstate": sn.State} {
		if value != "" {
			out[k] = value
		}
	}
	return out
}

// KeptBySnapshot reports whether a snapshot of a VM has a volume.
func KeptBySnapshot(v *world.VM, volid string) bool {
	for _, sn := range v.Snapshots {
		if _, there := sn.Disks[volid]; there {
			return true
		}
	}
	return false
}
