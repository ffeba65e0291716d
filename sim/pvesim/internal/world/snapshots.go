package world

import (
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
)

// Snapshot is a section of a VM's configuration file, with what the VM's volumes
// held in that moment.
type Snapshot struct {
	Conf        map[string]string
	Description string
	Parent      string
	Made        time.Time
	Memory      bool // the state of a running VM is in it
	State       string
	Disks       map[string]Frozen // by volume ID
}

// Frozen is a volume as it was.
type Frozen struct {
	Size int64
	Disk hypervisor.Disk
}

// Snapshot returns the one that a call names.
func (v *VM) Snapshot(name string) (*Snapshot, error) {
	if sn := v.Snapshots[name]; sn != nil {
		return sn, nil
	}
	return nil, answer.Die("snapshot '%s' does not exist", name)
}
