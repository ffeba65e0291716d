package prepare

import (
	"slices"

	"github.com/cps-gpu/homelab/cluster/internal/leasefile"
	"github.com/cps-gpu/homelab/converge/lease"
)

// HostLease is where preparations of one host meet.
type HostLease struct {
	Host string
	lease.Store
}

// Leases are where preparations of these hosts meet others of any of them: a file on each,
// which outlives a reboot. Take them in this order, which is that of their names: two that
// want the same hosts never wait for each other.
func (p *Prep) Leases() []HostLease {
	var out []HostLease
	for _, name := range slices.Compact(slices.Sorted(slices.Values(p.Hosts))) {
		out = append(out, HostLease{name, &leasefile.File{Root: p.Root[name], Machine: name, Path: leasefile.Folder + "/homelab-hosts.lease"}})
	}
	return out
}
