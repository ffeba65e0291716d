package config

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

var machineVersion = regexp.MustCompile(`^(?:pc(?:-i440fx|-q35)?|virt)-(\d+)\.\d+`)

// blockdev reports whether QEMU gets a machine's drives as -blockdev: on Proxmox VE 9,
// where the machine's version is 10.0 or later (qemu-server 9.0, PVE/QemuServer/Machine.pm,
// extract_version, and DriveDevice.pm).
func blockdev(s *world.State, conf map[string]string) bool {
	version := cmp.Or(s.QEMU, release.UsualQEMU(s))
	kind, _, _ := strings.Cut(strings.TrimPrefix(conf["machine"], "type="), ",")
	if m := machineVersion.FindStringSubmatch(kind); m != nil {
		version = m[1] + ".0"
	}
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n >= 10 && !strings.HasPrefix(s.Version, "8.")
}

// driveNames are how Linux knows a drive: its serial, as lsblk tells it, and udev's links
// for it below /dev/disk/by-id.
//
// A SCSI disk has a device ID (VPD page 0x83) and, if it was given one, a serial (page
// 0x80); udev's link has the device ID. QEMU makes that of the serial or, without one, of
// the drive's name, which a -blockdev does not have: there qemu-server (from 9.0.7 on) says the
// drive's name. virtio and IDE disks have a serial alone.
func driveNames(s *world.State, conf, drive map[string]string, key string) (serial string, links []string) {
	bus := strings.TrimRight(key, "0123456789")
	serial = drive["serial"]
	switch bus {
	case "virtio":
		if serial != "" {
			links = []string{"virtio-" + serial}
		}
	case "ide", "sata":
		if serial == "" {
			serial = fmt.Sprintf("QM%05d", ideNumber(conf, bus, key))
		}
		links = []string{"ata-" + cmp.Or(drive["model"], "QEMU_HARDDISK") + "_" + serial}
	default:
		id := "drive-" + key
		if serial != "" && !blockdev(s, conf) {
			id = serial
		}
		links = []string{"scsi-0" + cmp.Or(drive["vendor"], "QEMU") + "_" + cmp.Or(drive["product"], "QEMU_HARDDISK") + "_" + id}
		if w := strings.TrimPrefix(drive["wwn"], "0x"); w != "" { // which udev prefers
			links = []string{"scsi-3" + w, "wwn-0x" + w}
		}
		serial = cmp.Or(serial, id)
	}
	return serial, links
}

// ideNumber counts the places for IDE and SATA disks as QEMU does, in the order in which
// it makes them: those of the chipset, then those of Proxmox's SATA controller.
func ideNumber(conf map[string]string, bus, key string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(key, bus))
	q35 := strings.Contains(conf["machine"], "q35")
	switch {
	case bus == "ide" && !q35:
		return n + 1
	case bus == "ide":
		return 2*(n/2+2*(n%2)) + 1
	case q35:
		return 13 + 2*n
	}
	return 5 + 2*n
}
