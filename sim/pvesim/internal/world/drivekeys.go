package world

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

var (
	driveKey  = regexp.MustCompile(`^(ide|sata|scsi|virtio)\d+$|^(efidisk0|tpmstate0)$`)
	UnusedKey = regexp.MustCompile(`^unused\d+$`)
	NewDisk   = regexp.MustCompile(`^([^/:\s]+):(\d+(?:\.\d+)?)$`)
)

// IsDrive reports whether an option is a drive.
func IsDrive(key string) bool { return driveKey.MatchString(key) }

// IsCDROM reports whether a drive is a CD drive.
func IsCDROM(d map[string]string) bool { return d["media"] == "cdrom" }

// IsCloudInit reports whether a drive's file is a cloud-init drive.
func IsCloudInit(file string) bool {
	return strings.HasSuffix(file, ":cloudinit") || strings.Contains(file, "-cloudinit")
}

// Drives returns the keys of a configuration that are drives, sorted.
func Drives(conf map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(conf)), func(k string) bool { return !IsDrive(k) })
}

// BootDisk returns the drive that the VM boots from, as the boot order has it.
func (s *State) BootDisk(conf map[string]string) string {
	_, order, _ := strings.Cut(conf["boot"], "order=")
	for _, k := range append(schema.SplitList(order), "scsi0", "virtio0", "sata0", "ide0") {
		if IsDrive(k) && conf[k] != "" && !IsCDROM(s.Props(k, conf[k])) {
			return k
		}
	}
	return ""
}

// DiskSize is that of the disk which the VM boots from.
func (v *VM) DiskSize(s *State) int64 {
	if k := s.BootDisk(v.Conf); k != "" {
		return schema.ParseSize(s.Props(k, v.Conf[k])["size"])
	}
	return 0
}

// NetKey are the options that are network cards.
var NetKey = regexp.MustCompile(`^net\d+$`)
