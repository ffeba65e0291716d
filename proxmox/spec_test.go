package proxmox

// Pure parts that are not exported.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStartTimeout(t *testing.T) {
	for _, tt := range []struct {
		memory        Size
		devices, nics int
		hugepages     bool
		want          time.Duration
	}{
		{4 * GiB, 0, 1, false, 35 * time.Second},
		{30 * GiB, 0, 0, false, 30 * time.Second},
		{128 * GiB, 0, 1, false, 133 * time.Second},
		{128 * GiB, 2, 1, false, 517 * time.Second},
		{16 * GiB, 1, 1, false, 125 * time.Second},
		{16 * GiB, 0, 2, true, 160 * time.Second},
	} {
		assert.Equal(t, tt.want, startTimeout(tt.memory, tt.devices, tt.nics, tt.hugepages))
	}
}

func TestNICLineKeepsWhatItDoesNotKnow(t *testing.T) {
	n := NIC{Bridge: "vmbr1", VLAN: 7, Queues: 16}
	assert.Equal(t, "virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=7,queues=16,firewall=1",
		n.line(loose("virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,mtu=9000")))
	assert.Equal(t, "virtio=BC:24:11:00:00:02,bridge=vmbr0", NIC{Bridge: "vmbr0", MAC: "BC:24:11:00:00:02"}.line(loose("e1000=BC:24:11:00:00:01,bridge=vmbr0")))
	assert.Equal(t, "virtio,bridge=vmbr0", NIC{Bridge: "vmbr0"}.line(nil))
}

func TestDiskLine(t *testing.T) {
	d := Disk{Slot: "scsi1", Storage: "vmdata", Size: 1 * TiB, Serial: "scratch", SSD: true, Discard: true, IOThread: true}
	assert.Equal(t, "vmdata:1024,serial=scratch,ssd=1,discard=on,iothread=1", d.line(nil))
	assert.Equal(t, "vmdata:vm-100-disk-1,size=1T,cache=none,serial=scratch,ssd=1,discard=on,iothread=1",
		d.line(loose("vmdata:vm-100-disk-1,size=1T,cache=none")))
	assert.Equal(t, "vmdata:0.5", Disk{Storage: "vmdata", Size: 512 * MiB}.line(nil))
}

// Proxmox decodes the agent's base64 into bytes and writes each as a character.
func TestOctets(t *testing.T) {
	assert.Equal(t, []byte("h\xc3\xa9\x00\xff"), octets("h\u00c3\u00a9\x00\u00ff"))
	assert.Equal(t, []byte("€"), octets("€"))
}

func TestClassesOfWhatProxmoxSays(t *testing.T) {
	for text, want := range map[string]Class{
		"can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout":                                      Transient,
		"clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout":                   Transient,
		"create group failed: cfs-lock 'file-user_cfg' error: got lock request timeout":                            Transient,
		"got no worker upid - start worker failed":                                                                 Transient,
		"checksum mismatch (file change by other user?)":                                                           Transient,
		"update hardware mapping failed: detected modified configuration - file changed by other user? Try again.": Transient,
		"start failed: command '/usr/bin/kvm -id 100 -name wk1' failed: got timeout":                               Permanent,
		"VM is locked (clone)":                                       Permanent,
		"bridge 'vmbr9' does not exist":                              Permanent,
		"only root can set 'hostpci0' config for non-mapped devices": Permanent,
	} {
		assert.Equal(t, want, classOf(text), text)
	}
	assert.True(t, saidTaken("unable to create VM 900 - VM 900 already exists on node 'pve1'"))
	assert.True(t, saidTaken("unable to create VM 930: config file already exists"))
	assert.False(t, saidTaken("refusing to override existing file '/var/lib/vz/import/dl.qcow2'"))
	assert.Equal(t, "clone", saidLock("VM is locked (clone)"))
}
