package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// CloneOf is what a clone of a template looks like, as far as can be known without
// reading it. Proxmox gives the interfaces new addresses and the disks new volumes.
func (s Spec) CloneOf(source *VM, vmid int) *VM {
	config := maps.Clone(source.config)
	for _, k := range []string{"template", "digest", "lock", "parent"} {
		delete(config, k)
	}
	config["name"], config["description"] = s.Name, HalfMadeNotes(s.Owner, vmid)
	// Proxmox makes up another UUID. It is set again, so that it need not be asked for.
	if config["smbios1"] = wire.Loose(config["smbios1"]).With("uuid", "").String(); config["smbios1"] == "" {
		delete(config, "smbios1")
	}
	for k, line := range config {
		switch p := wire.Loose(line); {
		case strings.HasPrefix(k, "unused"):
			delete(config, k)
		case strings.HasPrefix(k, "net"):
			name, _ := model(p)
			config[k] = (append(wire.Properties{{Key: "", Value: name}}, p[min(1, len(p)):]...)).With("macaddr", "").String()
		}
	}
	source = &VM{Host: s.Host, VMID: vmid, Owner: s.Owner, config: config}
	clone := source.With(nil)
	clone.Unfinished = true
	return clone
}

// NeedsReading reports whether what is wanted of a clone takes more than is known of it
// without reading it: where a disk is there its volume's name; where one is to be made,
// the digest, so that a request that comes late makes no second one.
func NeedsReading(wanted []Change) bool {
	return slices.ContainsFunc(wanted, func(ch Change) bool { return ch.Key != SeedSlot && IsVolume(ch.Key) })
}

// RefuseSource returns an error when no clone of source can become what s says.
func (s Spec) RefuseSource(source *VM) error {
	for _, ch := range s.Changes(s.CloneOf(source, s.VMID)) {
		if ch.Field.Effect == drift.Replace {
			return fmt.Errorf("proxmox: %s cannot be made from %s: %s; nothing was cloned", s.Name, source, ch.Field)
		}
	}
	return nil
}
