package pvesim

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	driveKey  = regexp.MustCompile(`^(ide|sata|scsi|virtio)\d+$|^(efidisk0|tpmstate0)$`)
	unusedKey = regexp.MustCompile(`^unused\d+$`)
	newDisk   = regexp.MustCompile(`^([^/:\s]+):(\d+(?:\.\d+)?)$`)
)

func isDrive(key string) bool { return driveKey.MatchString(key) }

// isCDROM reports whether a drive is a CD drive.
func isCDROM(d map[string]string) bool { return d["media"] == "cdrom" }

func isCloudInit(file string) bool {
	return strings.HasSuffix(file, ":cloudinit") || strings.Contains(file, "-cloudinit")
}

// drives returns the keys of a configuration that are drives, sorted.
func drives(conf map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(conf)), func(k string) bool { return !isDrive(k) })
}

// bootDisk returns the drive that the VM boots from, as the boot order has it.
func (s *state) bootDisk(conf map[string]string) string {
	_, order, _ := strings.Cut(conf["boot"], "order=")
	for _, k := range append(splitList(order), "scsi0", "virtio0", "sata0", "ide0") {
		if isDrive(k) && conf[k] != "" && !isCDROM(s.props(k, conf[k])) {
			return k
		}
	}
	return ""
}

// diskSize is that of the disk which the VM boots from.
func (v *vm) diskSize(s *state) int64 {
	if k := s.bootDisk(v.conf); k != "" {
		return parseSize(s.props(k, v.conf[k])["size"])
	}
	return 0
}

var netKey = regexp.MustCompile(`^net\d+$`)
