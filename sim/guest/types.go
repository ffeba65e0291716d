package guest

import "github.com/cps-gpu/homelab/sim/guest/internal/disk"

// Disk is an in-memory file system with what dpkg knows about it. Clones share
// everything that neither side has changed since. It is safe for concurrent use.
type Disk = disk.Disk

// NewDisk returns a disk with an empty file system.
func NewDisk() *Disk { return disk.New() }
