package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/remote"
)

// fact is an observed value, or the error that prevented the observation.
type fact[T any] struct {
	is  T
	err error
}

// observation is all the state that the checks use.
type observation struct {
	version     proxmox.Version
	token       string
	brief       bool // nothing is created: Options.Brief
	hosts       fact[[]proxmox.Host]
	quorate     fact[bool]
	permissions fact[proxmox.PermissionTree]
	info        fact[proxmox.TokenInfo]
	tags        fact[proxmox.TagAccess]
	residents   fact[[]proxmox.Resident]
	neighbours  fact[[]proxmox.Neighbour]
	leases      fact[[]proxmox.Lease]
	answers     []fact[string] // what answers at each of the wanted addresses
	namesakes   fact[[]*proxmox.ConflictError]
	marked      fact[map[int]bool] // VMIDs of our machines
	ledger      fact[*pci.Ledger]
	pools       fact[[]string] // resource pools
	groups      fact[[]string] // security groups
	now         time.Time
	byHost      map[string]*hostObservation
	vms         map[string]fact[*proxmox.VM] // existing machines of ours, by name
	vmids       map[int]fact[bool]           // requested VMIDs that no visible guest has
}

// hostObservation is the observed state of one host.
type hostObservation struct {
	offline  error // why the host does not answer
	status   fact[proxmox.HostStatus]
	skew     fact[time.Duration] // by how much its clock is ahead of ours
	storages fact[[]proxmox.Storage]
	volumes  map[string]fact[[]proxmox.Volume] // disks, by storage
	bridges  fact[[]proxmox.Bridge]
	cards    fact[[]pci.GPU]
	mappings fact[[]pci.MappingState]
	placed   fact[[]error] // why VMs cannot have their cards
	existing fact[[]error] // why VMs cannot have existing volumes
	devices  fact[[]error] // why VMs cannot have their other devices
	clones   fact[map[string]proxmox.Cloning]
	probe    fact[*probe]
}

// requests sends many requests concurrently and waits for all of them.
type requests struct {
	wg  sync.WaitGroup
	sem chan struct{}
}

// maxConcurrent bounds the concurrent requests.
const maxConcurrent = 12

func fetch[T any](g *requests, into *fact[T], question func() (T, error)) {
	g.wg.Go(func() {
		g.sem <- struct{}{}
		defer func() { <-g.sem }()
		into.is, into.err = question()
	})
}

// observe reads all state, each list once.
func observe(ctx context.Context, c *proxmox.Client, w *Requirements, o Options) (*observation, error) {
	s := &observation{version: c.Version(), token: c.TokenID(), brief: o.Brief, now: time.Now(), byHost: map[string]*hostObservation{},
		vms: map[string]fact[*proxmox.VM]{}, vmids: map[int]fact[bool]{}}
	for _, h := range w.Hosts {
		s.byHost[h.Name] = &hostObservation{volumes: map[string]fact[[]proxmox.Volume]{}}
	}
	if !o.Brief {
		// Check first which hosts are online: each request to an offline host takes long.
		if s.hosts.is, s.hosts.err = c.Hosts.List(ctx); s.hosts.err != nil {
			return nil, fmt.Errorf("the hosts cannot be listed: %w", s.hosts.err)
		}
		for name, h := range s.byHost {
			h.offline = offlineReason(s.hosts.is, name)
		}
	}
	g := &requests{sem: make(chan struct{}, maxConcurrent)}
	s.observeCluster(ctx, g, c, w, o)
	for _, h := range w.Hosts {
		if seen := s.byHost[h.Name]; seen.offline == nil {
			seen.observe(ctx, g, c, w, h, o)
		}
	}
	g.wg.Wait()
	if !o.Brief {
		s.observeMachines(ctx, c, w)
		s.tags.is, s.tags.err = c.TagAccess(ctx, s.permissions.is.Has("/", "Sys.Audit", false))
	}
	return s, ctx.Err()
}

// offlineReason says why a host does not answer.
func offlineReason(all []proxmox.Host, name string) error {
	i := slices.IndexFunc(all, func(h proxmox.Host) bool { return h.Name == name })
	switch {
	case i < 0:
		return fmt.Errorf("there is no host %s", name)
	case !all[i].Online:
		return fmt.Errorf("%s is offline", name)
	}
	return nil
}

// observeCluster requests the state that does not belong to one host.
func (s *observation) observeCluster(ctx context.Context, g *requests, c *proxmox.Client, w *Requirements, o Options) {
	names := make([]string, len(w.VMs))
	for i, vm := range w.VMs {
		names[i] = vm.Name
	}
	fetch(g, &s.namesakes, func() ([]*proxmox.ConflictError, error) { return c.VMs.NameConflicts(ctx, w.Owner, names) })
	if o.Brief {
		return
	}
	fetch(g, &s.residents, func() ([]proxmox.Resident, error) { return c.Hosts.Residents(ctx) })
	fetch(g, &s.marked, func() (map[int]bool, error) {
		all, err := c.VMs.List(ctx, w.Owner)
		marked := make(map[int]bool, len(all))
		for _, vm := range all {
			marked[vm.VMID] = true
		}
		return marked, err
	})
	fetch(g, &s.quorate, func() (bool, error) { return c.Hosts.Quorate(ctx) })
	exactly := proxmox.GrantPaths(w.Grants)
	if !o.Exact {
		exactly = filter(exactly, w.inherits)
	}
	fetch(g, &s.permissions, func() (proxmox.PermissionTree, error) { return c.Permissions(ctx, exactly...) })
	fetch(g, &s.info, func() (proxmox.TokenInfo, error) { return c.Token(ctx) })
	if w.wantsPools() {
		fetch(g, &s.pools, func() ([]string, error) { return c.Pools(ctx) })
	}
	if w.wantsGroups() {
		fetch(g, &s.groups, func() ([]string, error) { return c.Firewall.Groups(ctx) })
	}
	var carry []string // hosts that answer and provide GPUs
	for _, h := range w.Hosts {
		if len(w.gpus(h.Name)) > 0 && s.byHost[h.Name].offline == nil {
			carry = append(carry, h.Name)
		}
	}
	if len(carry) > 0 {
		fetch(g, &s.ledger, func() (*pci.Ledger, error) { return c.PCI.Ledger(ctx, carry...) })
	}
}

// inherits reports whether a path may inherit from another of the grants above it. One request for
// all paths does not distinguish that from a path without any privilege.
func (w *Requirements) inherits(path string) bool {
	return slices.ContainsFunc(w.Grants, func(g proxmox.Grant) bool {
		return g.Propagate && strings.HasPrefix(path, strings.TrimSuffix(g.Path, "/")+"/")
	})
}

// observe requests the state of one host.
func (h *hostObservation) observe(ctx context.Context, g *requests, c *proxmox.Client, w *Requirements, host Host, o Options) {
	fetch(g, &h.storages, func() ([]proxmox.Storage, error) { return c.Storages.List(ctx, host.Name) })
	if w.Volumes != nil {
		fetch(g, &h.existing, func() ([]error, error) { return ask(ctx, w.Volumes, host.Name) })
	}
	if o.Brief {
		return
	}
	fetch(g, &h.status, func() (proxmox.HostStatus, error) { return c.Hosts.Status(ctx, host.Name) })
	fetch(g, &h.skew, func() (time.Duration, error) {
		before := time.Now()
		theirs, err := c.Hosts.Clock(ctx, host.Name)
		return theirs.Sub(before.Add(time.Since(before) / 2)), err
	})
	fetch(g, &h.bridges, func() ([]proxmox.Bridge, error) { return c.Hosts.Bridges(ctx, host.Name) })
	fetch(g, &h.probe, func() (*probe, error) { return runProbe(ctx, o.SSH, host.Name) })
	if w.Clones != nil {
		fetch(g, &h.clones, func() (map[string]proxmox.Cloning, error) { return w.Clones(ctx, host.Name) })
	}
	if len(w.gpus(host.Name)) > 0 {
		fetch(g, &h.cards, func() ([]pci.GPU, error) { return c.PCI.GPUs(ctx, host.Name) })
		if w.Place != nil {
			fetch(g, &h.placed, func() ([]error, error) { return ask(ctx, w.Place, host.Name) })
		}
		fetch(g, &h.mappings, func() ([]pci.MappingState, error) { return c.PCI.Mappings(ctx, host.Name) })
	}
	if w.wantsDevices() {
		fetch(g, &h.devices, func() ([]error, error) { return ask(ctx, w.Devices, host.Name) })
	}
	var mu sync.Mutex
	for _, storage := range w.disks(host.Name) {
		g.wg.Go(func() {
			g.sem <- struct{}{}
			defer func() { <-g.sem }()
			all, err := c.Storages.Volumes(ctx, host.Name, storage, "images")
			mu.Lock()
			defer mu.Unlock()
			h.volumes[storage] = fact[[]proxmox.Volume]{all, err}
		})
	}
}

// observeMachines reads the existing machines of ours.
func (s *observation) observeMachines(ctx context.Context, c *proxmox.Client, w *Requirements) {
	g := &requests{sem: make(chan struct{}, maxConcurrent)}
	vms := make([]fact[*proxmox.VM], len(w.VMs))
	taken := make([]fact[bool], len(w.VMs))
	for i, vm := range w.VMs {
		if s.machine(vm.Name) != nil {
			fetch(g, &vms[i], func() (*proxmox.VM, error) { return c.VMs.Get(ctx, w.Owner, vm.Name) })
		} else if vm.VMID != 0 {
			fetch(g, &taken[i], func() (bool, error) { return c.VMs.VMIDTaken(ctx, vm.VMID) })
		}
	}
	s.observeNeighbours(ctx, g, c, w)
	g.wg.Wait()
	for i, vm := range w.VMs {
		s.vms[vm.Name], s.vmids[vm.VMID] = vms[i], taken[i]
	}
}

// machine returns our machine with that name, or nil if it does not exist.
func (s *observation) machine(name string) *proxmox.Resident {
	for i, r := range s.residents.is {
		if r.Name == name && !r.Container && !r.Template && s.marked.is[r.VMID] {
			return &s.residents.is[i]
		}
	}
	return nil
}

// ask asks the caller's own rules. A request that Proxmox refused is not an answer of those
// rules.
func ask(ctx context.Context, rules func(context.Context, string) error, host string) ([]error, error) {
	err := rules(ctx, host)
	var refused *api.Error
	if errors.As(err, &refused) {
		return nil, err
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap(), nil
	}
	if err != nil {
		return []error{err}, nil
	}
	return nil, nil
}

// errNoSSH says why a check that needs a shell on the host was skipped.
var errNoSSH = errors.New("only a shell on the host can tell: add -ssh=root@HOST")

// runProbe reads what only a shell on the host can see.
func runProbe(ctx context.Context, way func(context.Context, string) (remote.Runner, error), host string) (*probe, error) {
	if way == nil {
		return nil, errNoSSH
	}
	r, err := way(ctx, host)
	if err != nil {
		return nil, err
	}
	return readProbe(ctx, r)
}
