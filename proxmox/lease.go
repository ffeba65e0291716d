package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

const (
	// Leases have VMIDs above those that Proxmox proposes (its default next-id.upper is 1,000,000)
	// and below its largest, 999,999,999.
	leaseBase  = 900_000_000
	leaseRange = 99_000_000

	leaseNote = "A run of homelab holds this lease while it changes the cluster, and removes it at its end. The VM is never started."
)

// Lease returns the lock that all runs that change a cluster share, from any machine: a VM without
// disks that is never started. It works because Proxmox creates a VMID only once, and replaces a
// configuration only if it is the one that was read (digest). A new lease is made on the first of
// hosts that is online, or on any other online host.
func (c *Client) Lease(cluster string, hosts ...string) converge.LeaseStore {
	return &leaseVM{
		c: c, name: "homelab-" + cluster + "-lease", hosts: hosts,
		vmid: leaseBase + int(crc32.ChecksumIEEE([]byte(cluster))%leaseRange),
	}
}

type leaseVM struct {
	c     *Client
	vmid  int
	name  string
	hosts []string // candidates for a new lease

	mu   sync.Mutex
	host string // its host, as far as known; "" before the first lookup
}

func (l *leaseVM) place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host
}

// String returns, for example, VM 900000123 (homelab-a100-lease) on pve1.
func (l *leaseVM) String() string {
	return strings.TrimSuffix(fmt.Sprintf("VM %d (%s) on %s", l.vmid, l.name, l.place()), " on ")
}

// locate finds the host of the lease. The lease exists once in the whole Proxmox cluster. If there
// is none, locate returns the host to make it on.
func (l *leaseVM) locate(ctx context.Context) (there bool, err error) {
	all, err := l.c.Hosts.List(ctx)
	if err != nil {
		return false, err
	}
	var vms []live.Resource // the existence and host of a VM are live; the rest is not
	if err := l.c.pve.Get(ctx, "/cluster/resources", url.Values{"type": {"vm"}}, &vms); err != nil {
		return false, err
	}
	if len(all) == 0 {
		return false, converge.Transient(errors.New("the lease has no host to be created on: Proxmox lists none"))
	}
	host := l.choose(all)
	if i := slices.IndexFunc(vms, func(r live.Resource) bool { return r.Type == "qemu" && int(r.VMID) == l.vmid }); i >= 0 {
		there, host = true, vms[i].Node
	}
	if slices.ContainsFunc(all, func(h Host) bool { return h.Name == host && !h.Online }) && there {
		return true, converge.Transient(leaseAway(l.vmid, host)) // the host may come back
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host = host
	return there, nil
}

// choose picks the host for a new lease.
func (l *leaseVM) choose(all []Host) string {
	online := slices.DeleteFunc(slices.Clone(all), func(h Host) bool { return !h.Online })
	for _, name := range l.hosts {
		if slices.ContainsFunc(online, func(h Host) bool { return h.Name == name }) {
			return name
		}
	}
	if len(online) > 0 {
		return online[0].Name
	}
	return all[0].Name
}

// leaseAway reports a lease on a host that is down: it is unknown whether the holder is alive, and
// nobody can take the lease over.
func leaseAway(vmid int, host string) error {
	return fmt.Errorf("the lease is VM %d on %s, which is offline, so nobody can see whether another run still holds it\n"+
		"  bring %s back; if it never comes back and no other run is at work, as root on another host: rm /etc/pve/nodes/%s/qemu-server/%d.conf",
		vmid, host, host, printable.Word(host), vmid)
}

// Read returns the VM's notes. While the VM is being made it has none.
func (l *leaseVM) Read(ctx context.Context) (converge.LeaseRecord, error) {
	was := l.place()
	var s converge.LeaseRecord
	var err error
	if was != "" {
		if s, err = l.read(ctx); err == nil || converge.IsPermanent(err) || ctx.Err() != nil {
			return s, err
		}
	}
	there, where := l.locate(ctx)
	switch {
	case where != nil:
		return s, errors.Join(where, err)
	case !there:
		return s, converge.ErrNoLease
	case l.place() == was && !errors.Is(err, ErrNotFound):
		return s, err
	}
	if s, err = l.read(ctx); errors.Is(err, ErrNotFound) { // it is being made, removed or migrated
		err = converge.Transient(err)
	}
	return s, err
}

func (l *leaseVM) read(ctx context.Context) (converge.LeaseRecord, error) {
	var config struct {
		Digest      string `json:"digest"`
		Name        string `json:"name"`
		Description string `json:"description"`
		Lock        string `json:"lock"`
	}
	if err := l.c.pve.Get(ctx, api.VMPath(l.place(), l.vmid, "config"), nil, &config); err != nil {
		return converge.LeaseRecord{}, err
	}
	half := config.Name == "" && config.Lock == "create"
	if n := config.Name; !half && (!strings.HasPrefix(n, "homelab-") || !strings.HasSuffix(n, "-lease")) {
		return converge.LeaseRecord{}, converge.Permanent(fmt.Errorf("VM %d (%s) on %s belongs to somebody else, and this cluster's lease needs its VMID: give that VM another VMID",
			l.vmid, cmp.Or(n, "without a name"), l.place()))
	}
	if config.Lock == "create" { // it is being made, or its creation never finished
		config.Lock = ""
	}
	return converge.LeaseRecord{Text: config.Description, Version: config.Digest, Locked: config.Lock}, nil
}

// Create makes the VM.
func (l *leaseVM) Create(ctx context.Context, text string) error {
	err := l.c.pve.Do(api.WithoutGuard(ctx), http.MethodPost, api.NodePath(l.place(), "qemu"), api.Params{
		"vmid": l.vmid, "name": l.name, "description": leaseNote + "\n\n" + text, "memory": 16, "onboot": 0, "protection": 1,
	})
	if api.IsVMIDTaken(err) {
		return converge.ErrLeaseExists
	}
	return err
}

// Replace writes the VM's notes.
func (l *leaseVM) Replace(ctx context.Context, over converge.LeaseRecord, text string) error {
	err := l.c.pve.Call(api.WithoutGuard(ctx), http.MethodPut, api.VMPath(l.place(), l.vmid, "config"),
		api.Params{"name": l.name, "description": leaseNote + "\n\n" + text, "protection": 1, "digest": over.Version}, nil)
	switch {
	case api.LockOf(err) == "create": // Proxmox checks the digest first, so the lease is the one that was seen
		return converge.Permanent(fmt.Errorf("VM %d on %s, the lease of this cluster, was never completely created: on the host run qm unlock %d && qm destroy %d",
			l.vmid, l.place(), l.vmid, l.vmid))
	case api.IsStaleConfig(err), api.LockOf(err) != "":
		return converge.ErrLeaseStale
	}
	return err
}

// Remove destroys the VM that was seen and no other. Proxmox destroys the VM that has the VMID when
// the request arrives, which may be late, but never a protected VM (destroy_vm of PVE/API2/Qemu.pm
// checks that under the configuration's lock). A held lease is protected, and Remove lifts the
// protection only over the configuration that was read.
func (l *leaseVM) Remove(ctx context.Context, over converge.LeaseRecord) error {
	ctx = api.WithoutGuard(ctx)
	err := l.c.pve.Call(ctx, http.MethodPut, api.VMPath(l.place(), l.vmid, "config"), api.Params{"protection": 0, "digest": over.Version}, nil)
	if err == nil {
		err = l.c.pve.Do(ctx, http.MethodDelete, api.VMPath(l.place(), l.vmid), api.Params{"purge": 1})
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case api.IsStaleConfig(err), api.IsProtected(err):
		return converge.ErrLeaseStale
	case api.LockOf(err) != "":
		return converge.Transient(err) // until a backup, a migration or another run ends
	}
	return err
}
