package hostprep

import (
	"slices"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/leasefile"
)

// HostLease is the lock that all preparations of one host share.
type HostLease struct {
	Host string
	converge.LeaseStore
}

// Leases returns the locks of these hosts: a file on each, which survives a reboot. Take them in
// this order, which is that of their names, to avoid a deadlock between two preparations.
func (p *Prep) Leases() []HostLease {
	var out []HostLease
	for _, name := range slices.Compact(slices.Sorted(slices.Values(p.Hosts))) {
		out = append(out, HostLease{name, &leasefile.File{Root: p.Root[name], Machine: name, Path: leasefile.Folder + "/homelab-hosts.lease"}})
	}
	return out
}
