package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// How QEMU gets a drive described depends on the host's release and the machine's version.
// The expected links of SCSI disks were seen in guests of QEMU started both ways; of the
// others, in QEMU's sources and udev's rules (60-persistent-storage.rules).
func TestDriveNames(t *testing.T) {
	tests := []struct{ version, machine, key, drive, serial, links string }{
		{"9.2.11", "q35", "scsi1", "serial=data", "data", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"},
		{"9.0.3", "", "scsi1", "serial=data", "data", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"},
		{"9.2.11", "pc-q35-10.0+pve1", "scsi1", "serial=data", "data", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"},
		{"9.2.11", "pc-q35-9.2+pve1,viommu=virtio", "scsi1", "serial=data", "data", "scsi-0QEMU_QEMU_HARDDISK_data"},
		{"9.2.11", "type=pc-i440fx-8.1", "scsi1", "serial=data", "data", "scsi-0QEMU_QEMU_HARDDISK_data"},
		{"8.4.1", "q35", "scsi1", "serial=data", "data", "scsi-0QEMU_QEMU_HARDDISK_data"},
		{"9.2.11", "q35", "scsi0", "", "drive-scsi0", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi0"},
		{"8.4.1", "q35", "scsi0", "", "drive-scsi0", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi0"},
		{"8.4.1", "q35", "scsi0", "serial=a,vendor=ACME,product=DISK", "a", "scsi-0ACME_DISK_a"},
		{"9.2.11", "q35", "scsi0", "serial=a,wwn=0x5000c500a1b2c3d4", "a", "scsi-35000c500a1b2c3d4 wwn-0x5000c500a1b2c3d4"},
		{"9.2.11", "q35", "virtio0", "serial=data", "data", "virtio-data"},
		{"9.2.11", "q35", "virtio0", "", "", ""},
		{"9.2.11", "q35", "sata0", "serial=data", "data", "ata-QEMU_HARDDISK_data"},
		{"9.2.11", "q35", "sata0", "", "QM00013", "ata-QEMU_HARDDISK_QM00013"},
		{"9.2.11", "", "sata1", "", "QM00007", "ata-QEMU_HARDDISK_QM00007"},
		{"9.2.11", "", "ide2", "", "QM00003", "ata-QEMU_HARDDISK_QM00003"},
	}
	for _, test := range tests {
		s := &world.State{Version: test.version}
		drive := map[string]string{}
		for _, p := range strings.Split(test.drive, ",") {
			k, v, _ := strings.Cut(p, "=")
			drive[k] = v
		}
		serial, links := driveNames(s, map[string]string{"machine": test.machine}, drive, test.key)
		assert.Equal(t, test.serial, serial, test)
		assert.Equal(t, test.links, strings.Join(links, " "), test)
	}
}
