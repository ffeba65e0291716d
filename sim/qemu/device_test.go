package qemu

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

func board(machine, qemu string) shape {
	return shape{
		Board: pvesim.Board{
			VMID: 101, CPUs: 1, Memory: 2 << 30, QEMU: qemu,
			Config: map[string]string{
				"name": "n1", "machine": machine, "scsihw": "virtio-scsi-single", "agent": "enabled=1", "balloon": "0",
				"scsi0": "vmdata:vm-101-disk-0,discard=on,ssd=1,size=8G", "scsi1": "vmdata:vm-101-disk-1,serial=data,size=1G",
				"ide2": "local:iso/seed.iso,media=cdrom", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
				"smbios1": "uuid=3dd750ce-d910-44d0-9493-525c0be4e687",
			},
			Drives: []pvesim.Drive{{Key: "scsi0"}, {Key: "scsi1", Serial: "data"}},
		},
		files: map[string]string{"scsi0": "/d/0", "scsi1": "/d/1"}, seed: "/d/seed.iso", serial: "/d/console", sent: "/d/sent",
	}
}

func line(s shape) string {
	return strings.Join(s.args(Options{Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1")}), " ")
}

// The devices are those that qemu-server writes (its src/test/cfg2cmd has such lines).
func TestDevicesAreQemuServers(t *testing.T) {
	now := line(board("q35", "10.1.2"))
	for _, want := range []string{
		"-device virtio-scsi-pci,id=virtioscsi0,bus=pci.3,addr=0x1 ",
		"-device scsi-hd,bus=virtioscsi0.0,channel=0,scsi-id=0,lun=0,drive=drive-scsi0,id=scsi0,device_id=drive-scsi0,rotation_rate=1,bootindex=100," +
			"write-cache=on",
		"-device virtio-scsi-pci,id=virtioscsi1,bus=pci.3,addr=0x2 ",
		"-device scsi-hd,bus=virtioscsi1.0,channel=0,scsi-id=0,lun=1,drive=drive-scsi1,id=scsi1,device_id=drive-scsi1,serial=data,write-cache=on",
		"-device virtio-serial,id=qga0,bus=pci.0,addr=0x8 -device virtserialport,chardev=qga0,name=org.qemu.guest_agent.0",
		"-device ide-cd,bus=ide.1,unit=0,id=ide2",
		"-device virtio-net-pci,mac=BC:24:11:00:00:01,netdev=net0,bus=pci.0,addr=0x12,id=net0",
		"-smbios type=1,uuid=3dd750ce-d910-44d0-9493-525c0be4e687",
		"-netdev user,id=net0,ipv6=off,restrict=on,net=10.0.0.0/24,host=10.0.0.1,dns=10.0.0.254,dhcpstart=10.0.0.101",
	} {
		assert.Contains(t, now+" ", want)
	}
	assert.NotContains(t, now, "balloon")
}

// In a LAN each card has a cable of its own, in the order of the cards.
func TestCardsInALAN(t *testing.T) {
	s := board("q35", "10.1.2")
	s.Config["net2"] = "e1000=BC:24:11:00:00:02,bridge=vmbr0"
	s.Config["net7"] = "virtio=BC:24:11:00:00:03,bridge=vmbr1,mtu=9000,tag=30"
	s.CPUs = 2
	o := Options{Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), LAN: plugs{}}
	all := strings.Join(s.args(o), " ")
	for _, want := range []string{
		"-netdev socket,id=net0,fd=5 -object filter-dump,id=sent0,netdev=net0,",
		"-netdev socket,id=net2,fd=6 -object filter-dump,id=sent2,netdev=net2,",
		"-device e1000,mac=BC:24:11:00:00:02,netdev=net2,bus=pci.0,addr=0x14,id=net2",
		"-device virtio-net-pci,mac=BC:24:11:00:00:03,netdev=net7,bus=pci.1,addr=0x2,id=net7,host_mtu=9000", "-accel tcg", "-smp 1 ",
	} {
		assert.Contains(t, all, want)
	}
	assert.NotContains(t, all, "-netdev user")
	assert.Empty(t, s.cards()[0].lan, "the gateway's")
	assert.Equal(t, "vmbr0.", s.cards()[1].lan)
	assert.Equal(t, "vmbr1.30", s.cards()[2].lan)
	o.KVM = true
	all = strings.Join(s.args(o), " ")
	assert.Contains(t, all, "-accel kvm -cpu host -smp "+strconv.Itoa(min(2, runtime.NumCPU()))+" ")
}

// plugs is a LAN with nobody in it.
type plugs struct{}

func (plugs) Plug(net.Conn, string) {}

func (plugs) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("nobody")
}

// Since machine version 10.0 a SCSI disk's id is no longer its serial. The version is the
// machine type's, else that of the host's QEMU.
func TestWhichMachinesHaveDeviceIDs(t *testing.T) {
	for machine, has := range map[string]bool{
		"pc-q35-9.2+pve1": false, "pc-q35-10.0": true, "pc-i440fx-8.1": false, "type=pc-q35-10.1+pve1,viommu=virtio": true, "q35": true, "": true,
	} {
		assert.Equal(t, has, strings.Contains(line(board(machine, "10.1.2")), "device_id="), machine)
	}
	assert.NotContains(t, line(board("q35", "9.2.0")), "device_id=")
}

func TestWhatCannotBeReal(t *testing.T) {
	s := board("q35", "10.1.2")
	require.NoError(t, s.check())
	s.Config["scsihw"] = "lsi"
	require.ErrorContains(t, s.check(), `scsihw "lsi"`)
	s.Drives = []pvesim.Drive{{Key: "sata0"}}
	require.ErrorContains(t, s.check(), "sata0")
}
