package proxmox

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

func TestNICLineKeepsWhatItDoesNotKnow(t *testing.T) {
	n := NIC{Bridge: "vmbr1", VLAN: 7, Queues: 16}
	assert.Equal(t, "virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=7,queues=16,firewall=1",
		n.line(wire.ParseLenient("virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,mtu=9000")))
	n.Firewall = new(false)
	assert.Equal(t, "virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=7,queues=16,rate=9",
		n.line(wire.ParseLenient("virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,rate=9")))
	assert.Equal(t, "virtio=BC:24:11:00:00:02,bridge=vmbr0", NIC{Bridge: "vmbr0", MAC: "BC:24:11:00:00:02"}.line(wire.ParseLenient("e1000=BC:24:11:00:00:01,bridge=vmbr0")))
	assert.Equal(t, "virtio,bridge=vmbr0", NIC{Bridge: "vmbr0"}.line(nil))
}

func TestDiskLine(t *testing.T) {
	d := Disk{Slot: "scsi1", Storage: "vmdata", Size: 1 * TiB, Serial: "scratch", SSD: true, Discard: true, IOThread: true}
	assert.Equal(t, "vmdata:1024,serial=scratch,ssd=1,discard=on,iothread=1", d.line(nil))
	assert.Equal(t, "vmdata:vm-100-disk-1,size=1T,cache=none,serial=scratch,ssd=1,discard=on,iothread=1",
		d.line(wire.ParseLenient("vmdata:vm-100-disk-1,size=1T,cache=none")))
	assert.Equal(t, "vmdata:0.5", Disk{Storage: "vmdata", Size: 512 * MiB}.line(nil))
}

func TestSlotsInOrder(t *testing.T) {
	all := []string{"virtio0", "scsi10", "sata1", "scsi2", "ide2", "scsi1"}
	slices.SortFunc(all, compareSlots)
	assert.Equal(t, []string{"ide2", "sata1", "scsi1", "scsi2", "scsi10", "virtio0"}, all)
}
