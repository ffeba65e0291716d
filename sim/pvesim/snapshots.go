package pvesim

import "time"

// snapshot is a section of a VM's configuration file, with what the VM's volumes
// held in that moment.
type snapshot struct {
	conf        map[string]string
	description string
	parent      string
	made        time.Time
	memory      bool // the state of a running VM is in it
	state       string
	disks       map[string]frozen // by volume ID
}

// frozen is a volume as it was.
type frozen struct {
	size int64
	disk Disk
}

// snapshot returns the one that a call names.
func (v *vm) snapshot(name string) (*snapshot, error) {
	if sn := v.snapshots[name]; sn != nil {
		return sn, nil
	}
	return nil, die("snapshot '%s' does not exist", name)
}
