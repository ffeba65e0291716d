package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// cloneOf returns a clone of a template as far as it is known without reading the clone. Proxmox
// gives the interfaces new addresses and the disks new volumes.
func (s VMSpec) cloneOf(source *VM, vmid int) *VM {
	config := maps.Clone(source.config)
	for _, k := range []string{"template", "digest", "lock", "parent"} {
		delete(config, k)
	}
	config["name"], config["description"] = s.Name, halfMadeNotes(s.Owner, vmid)
	// Proxmox generates another UUID. Setting it again saves a read.
	config["smbios1"] = wire.ParseLenient(config["smbios1"]).With("uuid", "").String()
	for k, line := range config {
		switch p := wire.ParseLenient(line); {
		case strings.HasPrefix(k, "unused"):
			delete(config, k)
		case strings.HasPrefix(k, "net"):
			name, _ := model(p)
			config[k] = (append(wire.Properties{{Key: "", Value: name}}, p[min(1, len(p)):]...)).With("macaddr", "").String()
		}
	}
	source = &VM{Host: s.Host, VMID: vmid, Owner: s.Owner, Pool: s.Pool, config: config}
	clone := source.withChanges(nil)
	clone.Unfinished = true
	return clone
}

// needsRead reports whether the changes of a clone need facts that are known only after reading
// the clone: the volume's name for an existing disk, or the digest for a new one, so that a late
// request does not make a second disk.
func needsRead(wanted []change) bool {
	return slices.ContainsFunc(wanted, func(ch change) bool { return ch.Key != seedSlot && isVolume(ch.Key) })
}

// refuseSource returns an error if no clone of source can match s.
func (s VMSpec) refuseSource(source *VM) error {
	for _, ch := range s.changes(s.cloneOf(source, s.VMID)) {
		if ch.Field.Effect == converge.Replace {
			return fmt.Errorf("proxmox: %s cannot be made from %s: %s; nothing was cloned", s.Name, source, ch.Field)
		}
	}
	return nil
}
