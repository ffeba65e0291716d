package record

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

var (
	driveOption = regexp.MustCompile(`^(ide|sata|scsi|virtio|efidisk|tpmstate|unused)\d+$`)
	netOption   = regexp.MustCompile(`^net\d+$`)
	macAddress  = regexp.MustCompile(`(?i)\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b`)
	// ofPeople are options with names, addresses or serial numbers in them.
	ofPeople = regexp.MustCompile(`^(smbios1|vmgenid|description|tags|ciuser|cicustom|sshkeys|nameserver|searchdomain|ipconfig\d+|usb\d+|meta)$`)
)

func (d *disguise) machine(v *pvesim.VM) {
	v.Node, v.Name, v.Pool = d.nodes.alias(v.Node), fmt.Sprintf("vm%d", v.ID), d.pool(v.Pool)
	for k, value := range v.Config {
		switch {
		case ofPeople.MatchString(k):
			delete(v.Config, k)
		case driveOption.MatchString(k):
			v.Config[k] = d.drive(value)
		case netOption.MatchString(k):
			v.Config[k] = macAddress.ReplaceAllString(value, fmt.Sprintf("BC:24:11:%02X:%02X:%s", byte(v.ID>>8), byte(v.ID), netNumber(k)))
		case strings.HasPrefix(k, "hostpci"):
			v.Config[k] = d.device(value)
		}
	}
}

// netNumber is the number of a network card in two hexadecimal digits.
func netNumber(key string) string {
	var n int
	_, _ = fmt.Sscanf(key, "net%d", &n)
	return fmt.Sprintf("%02X", n)
}

// drive renames a drive's storage or file, and drops its serial number.
func (d *disguise) drive(value string) string {
	var out []string
	for i, part := range strings.Split(value, ",") {
		if strings.HasPrefix(part, "serial=") || strings.HasPrefix(part, "wwn=") {
			continue
		}
		if storage, name, ok := strings.Cut(strings.TrimPrefix(part, "file="), ":"); i == 0 && ok {
			part = d.storages.alias(storage) + ":" + name
			if alias := d.files[storage+":"+name]; alias != "" {
				part = alias
			}
		}
		out = append(out, part)
	}
	return strings.Join(out, ",")
}

func (d *disguise) device(value string) string {
	parts := strings.Split(value, ",")
	for i, p := range parts {
		if id, ok := strings.CutPrefix(p, "mapping="); ok {
			parts[i] = "mapping=" + d.mappings.alias(id)
		}
	}
	return strings.Join(parts, ",")
}
