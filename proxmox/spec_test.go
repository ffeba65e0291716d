package proxmox

// Pure parts that are not exported.

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
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
		{31*GiB - 1, 0, 0, false, 31 * time.Second},
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
		n.line(wire.Loose("virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,mtu=9000")))
	assert.Equal(t, "virtio=BC:24:11:00:00:02,bridge=vmbr0", NIC{Bridge: "vmbr0", MAC: "BC:24:11:00:00:02"}.line(wire.Loose("e1000=BC:24:11:00:00:01,bridge=vmbr0")))
	assert.Equal(t, "virtio,bridge=vmbr0", NIC{Bridge: "vmbr0"}.line(nil))
}

func TestDiskLine(t *testing.T) {
	d := Disk{Slot: "scsi1", Storage: "vmdata", Size: 1 * TiB, Serial: "scratch", SSD: true, Discard: true, IOThread: true}
	assert.Equal(t, "vmdata:1024,serial=scratch,ssd=1,discard=on,iothread=1", d.line(nil))
	assert.Equal(t, "vmdata:vm-100-disk-1,size=1T,cache=none,serial=scratch,ssd=1,discard=on,iothread=1",
		d.line(wire.Loose("vmdata:vm-100-disk-1,size=1T,cache=none")))
	assert.Equal(t, "vmdata:0.5", Disk{Storage: "vmdata", Size: 512 * MiB}.line(nil))
}

// Proxmox decodes the agent's base64 into bytes and writes each as a character.
func TestOctets(t *testing.T) {
	assert.Equal(t, []byte("h\xc3\xa9\x00\xff"), octets("h\u00c3\u00a9\x00\u00ff"))
	assert.Equal(t, []byte("€"), octets("€"))
}

func TestSlotsInOrder(t *testing.T) {
	all := []string{"virtio0", "scsi10", "sata1", "scsi2", "ide2", "scsi1"}
	slices.SortFunc(all, compareSlots)
	assert.Equal(t, []string{"ide2", "sata1", "scsi1", "scsi2", "scsi10", "virtio0"}, all)
}

// A silent agent is asked again after a quarter of its silence, within bounds.
func TestWhenASilentAgentIsAskedAgain(t *testing.T) {
	since := time.Unix(1000, 0)
	for silent, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 20 * time.Second: 5 * time.Second, 40 * time.Second: 10 * time.Second, time.Minute: 15 * time.Second, time.Hour: 15 * time.Second} {
		s := silence{since: since, asked: since.Add(silent)}
		assert.Equal(t, want, s.again().Sub(s.asked), silent)
	}
}

func TestSignalsAndASCII(t *testing.T) {
	for n, want := range map[int]string{9: "KILL", 15: "TERM", 64: "64"} {
		assert.Equal(t, want, signalName(n))
	}
	assert.Equal(t, []bool{true, true, false}, []bool{isASCII(nil), isASCII([]byte("a\x7f")), isASCII([]byte("\x80"))})
}
