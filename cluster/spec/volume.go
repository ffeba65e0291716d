package spec

import (
	"fmt"
	"regexp"
	"strings"
)

// volumeID is the id of a disk on a storage of Proxmox: STORAGE:vm-VMID-NAME, after VMID/ on a storage with
// folders. Proxmox attaches a volume whose name has no VMID only to who may delete all of its storage
// (check_volume_access in pve-storage).
var volumeID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*:([0-9]+/)?vm-[1-9][0-9]{2,8}-[A-Za-z0-9._-]+$`)

// VolumeProblem says what is wrong with a disk's existing volume, and what to write instead; empty: nothing.
func (d Disk) VolumeProblem(host string) (what, cure string) {
	switch {
	case !volumeID.MatchString(d.Volume):
		return fmt.Sprintf("%q is not the id of a disk on a storage", d.Volume), "write it as pvesm list STORAGE shows it on the host, e.g. tank:vm-900-disk-0"
	case host == AnyHost:
		return fmt.Sprintf("the volume %s is on one host, which host: auto does not look for", d.Volume), "write host: and the name of the host that has it"
	}
	return "", ""
}

// VolumeStorage is the storage of a disk's existing volume.
func (d Disk) VolumeStorage() string {
	storage, _, _ := strings.Cut(d.Volume, ":")
	return storage
}
