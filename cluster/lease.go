package cluster

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script below
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/converge/lease"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/remote"
)

// Lease is where runs that change this cluster meet, from whatever machine: a VM without
// disks in Proxmox, or, for a cluster of external machines alone, a file on the first
// server of the file, /var/lib/homelab-NAME.lease.
func (c *Cluster) Lease() lease.Store {
	if c.Proxmox == nil {
		first := c.spec.Servers()[0].Name
		return &leaseFile{root: c.root(first), machine: first, path: leaseFolder + "/homelab-" + c.spec.Name + ".lease"}
	}
	hosts := make([]string, len(c.spec.Proxmox.Hosts))
	for i, h := range c.spec.Proxmox.Hosts {
		hosts[i] = h.Name
	}
	return c.Proxmox.Lease(c.spec.Name, hosts...)
}

// HostLease is where preparations of one host meet.
type HostLease struct {
	Host string
	lease.Store
}

// Leases are where preparations of these hosts meet others of any of them: a file on each,
// which outlives a reboot. Take them in this order, which is that of their names: two that
// want the same hosts never wait for each other.
func (p *HostPrep) Leases() []HostLease {
	var out []HostLease
	for _, name := range slices.Compact(slices.Sorted(slices.Values(p.Hosts))) {
		out = append(out, HostLease{name, &leaseFile{root: p.Root[name], machine: name, path: leaseFolder + "/homelab-hosts.lease"}})
	}
	return out
}

// leaseFolder is on every Linux, and outlives a reboot.
const leaseFolder = "/var/lib"

// leaseFile is a lease in a file of another machine. Its writers take turns by flock(1) of
// the file's folder, which the kernel ends with the process, so nothing is left behind.
type leaseFile struct {
	root    remote.Runner
	machine string
	path    string
}

//go:embed lease.sh
var leaseScript string

// What a change ends with.
const (
	leaseThere = 17
	leaseStale = 18
	leaseBusy  = 19 // flock(1) itself: the lock was not free within 10 s
)

// String is e.g. /var/lib/homelab-home.lease on server1.
func (l *leaseFile) String() string { return l.path + " on " + l.machine }

// Read returns the file.
func (l *leaseFile) Read(ctx context.Context) (lease.Seen, error) {
	text, err := remote.ReadFile(ctx, l.root, l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return lease.Seen{}, lease.ErrNone
	}
	sum := sha256.Sum256(text)
	return lease.Seen{Text: string(text), Version: hex.EncodeToString(sum[:])}, err
}

// Create makes the file.
func (l *leaseFile) Create(ctx context.Context, text string) error {
	return l.change(ctx, "create", "", text)
}

// Replace writes the file.
func (l *leaseFile) Replace(ctx context.Context, over lease.Seen, text string) error {
	return l.change(ctx, "replace", over.Version, text)
}

// Remove deletes the file.
func (l *leaseFile) Remove(ctx context.Context, over lease.Seen) error {
	return l.change(ctx, "remove", over.Version, "")
}

func (l *leaseFile) change(ctx context.Context, verb, version, text string) error {
	err := remote.Run(ctx, l.root, "flock", "-w", "10", "-E", strconv.Itoa(leaseBusy), path.Dir(l.path), "sh", "-c", leaseScript, "lease.sh", verb, l.path, version, text)
	var exit *remote.ExitError
	if errors.As(err, &exit) {
		switch exit.Code {
		case leaseThere:
			return lease.ErrThere
		case leaseStale:
			return lease.ErrStale
		case leaseBusy:
			return wait.Passing(fmt.Errorf("%s: another run has been changing it for 10 seconds", l))
		}
	}
	return err
}
