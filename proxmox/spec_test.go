package proxmox

// Pure parts that are not exported.

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestClassesOfWhatProxmoxSays(t *testing.T) {
	for text, want := range map[string]class{
		"can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout":                                      transient,
		"clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout":                   transient,
		"create group failed: cfs-lock 'file-user_cfg' error: got lock request timeout":                            transient,
		"got no worker upid - start worker failed":                                                                 transient,
		"checksum mismatch (file change by other user?)":                                                           transient,
		"update hardware mapping failed: detected modified configuration - file changed by other user? Try again.": transient,
		"start failed: command '/usr/bin/kvm -id 100 -name wk1' failed: got timeout":                               permanent,
		"VM is locked (clone)":                                       permanent,
		"bridge 'vmbr9' does not exist":                              permanent,
		"only root can set 'hostpci0' config for non-mapped devices": permanent,
	} {
		assert.Equal(t, want, classOf(text), text)
	}
	assert.True(t, saidTaken("unable to create VM 900 - VM 900 already exists on node 'pve1'"))
	assert.True(t, saidTaken("unable to create VM 930: config file already exists"))
	assert.False(t, saidTaken("refusing to override existing file '/var/lib/vz/import/dl.qcow2'"))
	assert.Equal(t, "clone", saidLock("VM is locked (clone)"))
}

// A pause is as long as is said, give or take a half.
func TestJitter(t *testing.T) {
	for range 500 {
		d := jitter(time.Second)
		assert.GreaterOrEqual(t, d, 500*time.Millisecond)
		assert.Less(t, d, 1500*time.Millisecond)
	}
}

// Only what asks a guest or changes something on a host takes that host's turn.
func TestWhatMayBlock(t *testing.T) {
	for call, want := range map[string]string{
		"GET /nodes/pve1/qemu/100/agent/info": "pve1", "GET /nodes/pve1/qemu/100/config": "", "PUT /nodes/pve1/qemu/100/config": "pve1", "POST /nodes/pve2/qemu": "pve2",
		"POST /nodes/pve1/storage/local/upload": "", "POST /access/ticket": "", "DELETE /cluster/mapping/pci/x": "",
	} {
		method, path, _ := strings.Cut(call, " ")
		host, blocks := mayBlock(method, path)
		if !blocks {
			host = ""
		}
		assert.Equal(t, want, host, call)
		assert.Equal(t, want != "", blocks, call)
	}
}

func TestSlotsInOrder(t *testing.T) {
	all := []string{"virtio0", "scsi10", "sata1", "scsi2", "ide2", "scsi1"}
	slices.SortFunc(all, compareSlots)
	assert.Equal(t, []string{"ide2", "sata1", "scsi1", "scsi2", "scsi10", "virtio0"}, all)
}

func TestSharesOfWork(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "transferred 1.0 GiB of 2.0 GiB (50.29%)": "50 %", "  1024K ........ ........ 10%  2M 1s   2048K ........ 20% 3M": "20 %", "100 %": "",
	} {
		assert.Equal(t, want, saidShare(line), line)
	}
	assert.True(t, saidDots("  1024K ........ ........"))
	assert.False(t, saidDots("..."))
	for n, want := range map[int]string{9: "KILL", 15: "TERM", 64: "64"} {
		assert.Equal(t, want, signalName(n))
	}
	assert.Equal(t, []bool{true, true, false}, []bool{isASCII(nil), isASCII([]byte("a\x7f")), isASCII([]byte("\x80"))})
}

// A fingerprint is 32 bytes, however it is written.
func TestFingerprintSpellings(t *testing.T) {
	plain := strings.Repeat("0a", 32)
	want := strings.TrimSuffix(strings.Repeat("0A:", 32), ":")
	for _, s := range []string{plain, want, strings.ToUpper(plain), strings.ReplaceAll(want, ":", " ")} {
		got, err := parseFingerprint(s)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, s := range []string{"", plain[2:], plain + "0a", strings.Repeat("zz", 32), plain[1:]} {
		_, err := parseFingerprint(s)
		assert.ErrorContains(t, err, "is not a SHA-256 fingerprint")
	}
}

// The next look at tasks is soon for young ones and few, and later for old ones and many.
func TestWhenTasksAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		due := func(looked time.Duration, ages ...time.Duration) time.Duration {
			n := &nodeTasks{byID: map[string]*watch{}}
			if looked > 0 {
				n.looked = start.Add(-looked)
			}
			for i, age := range ages {
				n.byID[strconv.Itoa(i)] = &watch{since: start.Add(-age)}
			}
			return n.due(time.Second).Sub(start)
		}
		const ms = time.Millisecond
		assert.Equal(t, 200*ms, due(0, 0))
		assert.Equal(t, 200*ms-100*ms, due(0, 100*ms))
		assert.Equal(t, 500*ms-100*ms, due(100*ms, 2*time.Second), "a quarter of its age after the last look")
		assert.Equal(t, time.Second-100*ms, due(100*ms, time.Minute), "not after most")
		assert.Equal(t, 500*ms-2*time.Second, due(3*time.Second, 2*time.Second), "the look was before it")
		assert.Equal(t, 800*ms-100*ms, due(100*ms, 2*time.Second, 0), "two, of which one is young")
		assert.Equal(t, time.Second-100*ms, due(100*ms, 0, 0, 2*time.Second))
		assert.Equal(t, 800*ms-2*time.Second, due(0, 2*time.Second, time.Second))
	})
}

// A silent agent is asked again after a quarter of its silence, within bounds.
func TestWhenASilentAgentIsAskedAgain(t *testing.T) {
	since := time.Unix(1000, 0)
	for silent, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 20 * time.Second: 5 * time.Second, 40 * time.Second: 10 * time.Second, time.Minute: 15 * time.Second, time.Hour: 15 * time.Second} {
		s := silence{since: since, asked: since.Add(silent)}
		assert.Equal(t, want, s.again().Sub(s.asked), silent)
	}
}

// Whether a failed look is worth another.
func TestWorthAnotherGet(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{errors.New("x"), false}, {&Error{Status: 500, Message: "x"}, false}, {&Error{Status: 500, Message: "can't lock file 'x' - got timeout"}, false},
		{&Error{Status: 595, Message: "refused"}, true}, {&Error{Status: 596}, true}, {&Error{Status: 503}, true}, {&Error{Cause: io.EOF}, true},
		{&Error{Cause: &net.DNSError{}}, false}, {&Error{Cause: &TLSError{}}, false}, {&Error{Cause: context.DeadlineExceeded}, false},
	} {
		assert.Equal(t, tt.want, worthAnotherGet(tt.err), "%#v", tt.err)
	}
	assert.Equal(t, "read: broken", networkText(&net.OpError{Op: "read", Err: errors.New("broken")}))
	assert.Equal(t, "the connection was closed before an answer arrived", networkText(io.ErrUnexpectedEOF))
	assert.Equal(t, "x", networkText(errors.New("x")))
}
