package pvesim

import (
	"strings"
)

// setDrive puts a drive in the place of what was there; a disk of the VM that
// goes out of use is kept as unusedN.
func (w worker) setDrive(v *vm, key, value string) error {
	var made allocated
	value, err := w.makeDrive(v, key, value, &made)
	if err != nil {
		made.undo()
		return err
	}
	if w.s.vms[v.id] != v { // gone while we allocated
		made.undo()
		return die("unable to find configuration file for VM %d on node '%s'", v.id, v.node)
	}
	w.retire(v, key, w.s.props(key, value)["file"])
	if v.running && strings.HasPrefix(key, "ide") && isCDROM(w.s.props(key, v.conf[key])) { // another disc in the same drive
		v.set(key, value)
		return nil
	}
	if v.running && w.s.adjusts(key, v.conf[key], value) {
		delete(v.pending, key)
		v.set(key, value)
		return nil
	}
	v.put(key, value)
	return nil
}

// adjusts reports whether a disk stays and only what can be changed while it is in
// use is changed (PVE/QemuServer.pm, vmconfig_update_disk). It is written at once,
// though the guest sees what it saw when it booted.
func (s *Sim) adjusts(key, old, value string) bool {
	was, is := s.props(key, old), s.props(key, value)
	if old == "" || isCDROM(was) || was["file"] != is["file"] {
		return false
	}
	for _, k := range []string{"aio", "discard", "iothread", "queues", "product", "cache", "ssd", "vendor", "ro"} {
		if was[k] != is[k] {
			return false
		}
	}
	return true
}

// retire is what becomes of the volume that a drive had.
func (w worker) retire(v *vm, key, replacement string) {
	old := w.s.props(key, v.wanted()[key])
	file := old["file"]
	if file == "" || file == replacement {
		return
	}
	if isCloudInit(file) {
		if st, name := w.s.hosts[v.node].volume(file); st != nil {
			_ = st.remove(name)
		}
		return
	}
	if isCDROM(old) {
		return
	}
	v.keepUnused(file)
}

// keepUnused notes a volume that the VM has and does not use, unless a snapshot
// does, and returns the key.
func (v *vm) keepUnused(volid string) string {
	for _, sn := range v.snapshots {
		if _, there := sn.disks[volid]; there {
			return ""
		}
	}
	for i := range 256 {
		if k := "unused" + itoa(i); v.conf[k] == "" {
			v.set(k, volid)
			return k
		}
	}
	return ""
}
