package draft

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// Sizes of machines.
const (
	gib           = proxmox.GiB
	serverCores   = 4
	serverMemory  = 8 * gib
	serverDisk    = 60 * gib
	coresPerGPU   = 8
	memoryPerGPU  = 64 * gib
	workerDisk    = 100 * gib
	leastMemory   = 4 * gib  // of a worker
	leastDisk     = 20 * gib // of any
	hostsOwnShare = 10       // per cent of a host's memory that stays with it
)

// layout is which machines there will be, and where.
type layout struct {
	hosts   []Host // that carry something, in order
	pools   []pool // servers first
	vip     netip.Addr
	homes   homes    // proposed beside them; zero: there is no room
	unused  []string // what was left out, each with the reason
	pods    netip.Prefix
	service netip.Prefix
}

// pool is machines of one kind on one host; the servers may be on several.
type pool struct {
	name      string
	server    bool
	hosts     []string // of each machine
	gpus      int      // of each machine; 0: none
	model     string   // where the host has several
	cores     int
	memory    proxmox.Size
	disk      proxmox.Size
	storage   string
	addresses []netip.Addr
}

func (p pool) count() int { return len(p.hosts) }

// addresses is how many a cluster needs.
func (f Inventory) addresses(a Answers) int {
	n := a.Servers
	if a.Servers > 1 {
		n++ // the VIP
	}
	for _, p := range f.workers(a, nil) {
		n += p.count()
	}
	return n
}

// layout plans the machines. Its errors name resources that are not available.
func (f Inventory) layout(a Answers) (layout, error) {
	usable := f.hostsWithBridge(a.Bridge)
	if len(usable) == 0 {
		return layout{}, fmt.Errorf("there is no host to put the cluster on")
	}
	var l layout
	servers := pool{name: "cp", server: true, cores: serverCores, memory: serverMemory}
	for i := range a.Servers {
		host := usable[0]
		if len(usable) >= a.Servers {
			host = usable[i]
		}
		servers.hosts = append(servers.hosts, host.Name)
		servers.cores = min(servers.cores, host.CPUs)
	}
	l.pools = append([]pool{servers}, f.workers(a, &l.unused)...)
	for _, h := range usable {
		if !slices.ContainsFunc(l.pools, func(p pool) bool { return slices.Contains(p.hosts, h.Name) }) {
			continue
		}
		if !nameSyntax.MatchString(h.Name) && !hostLabel(h.Name) {
			return l, fmt.Errorf("host %q has a name that a cluster file cannot hold: a lower-case host name is needed", plainText(h.Name))
		}
		l.hosts = append(l.hosts, h)
		if err := l.sizeMachines(h); err != nil {
			return l, err
		}
	}
	l.networks(f, a)
	return l, l.address(f, a)
}

// hostLabel reports whether s is a lower-case DNS label.
func hostLabel(s string) bool {
	return len(s) <= 63 && s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.HasPrefix(s, "-") && !strings.HasSuffix(s, "-")
}

// workers gives every free card to a machine; without cards there is one machine to
// work on.
func (f Inventory) workers(a Answers, unused *[]string) []pool {
	note := func(format string, args ...any) {
		if unused != nil {
			*unused = append(*unused, fmt.Sprintf(format, args...))
		}
	}
	var out []pool
	usable := f.hostsWithBridge(a.Bridge)
	for _, h := range f.Hosts {
		if !slices.ContainsFunc(usable, func(u Host) bool { return u.Name == h.Name }) {
			note("host %s has no bridge %s", h.Name, a.Bridge)
			continue
		}
		for _, g := range h.GPUs {
			if g.Taken != "" {
				note("%s on %s (%s): %s", g.Address, h.Name, g.Model, g.Taken)
			}
		}
		models := map[string]int{}
		var order []string
		for _, g := range h.FreeGPUs() {
			if models[g.Model]++; models[g.Model] == 1 {
				order = append(order, g.Model)
			}
		}
		for _, model := range order {
			n := models[model]
			if len(order) > 1 && !modelSyntax.MatchString(model) {
				note("%d cards on %s that are called %q: name them by pci:", n, h.Name, model)
				continue
			}
			each := min(perWorker(a, n), n)
			p := pool{gpus: each, hosts: slices.Repeat([]string{h.Name}, n/each)}
			if len(order) > 1 {
				p.model = model
			}
			if rest := n % each; rest > 0 {
				note("%d of %d %s on %s: workers have %d each", rest, n, model, h.Name, each)
			}
			out = append(out, p)
		}
	}
	if len(out) == 0 && len(usable) > 0 {
		out = append(out, pool{hosts: []string{usable[0].Name}})
	}
	name(out)
	return out
}

// modelSyntax is what can be asked for by name.
var modelSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._+/()-]*$`)

func perWorker(a Answers, cards int) int {
	switch {
	case a.GPUsPerWorker > 0:
		return a.GPUsPerWorker
	case cards%2 == 0:
		return 2
	}
	return 1
}

// name names pools after what they are, and after their hosts where there are several.
func name(pools []pool) {
	for i := range pools {
		p := &pools[i]
		p.name = "wk"
		if p.gpus > 0 {
			p.name = "gpu"
		}
		if len(pools) > 1 {
			p.name = fmt.Sprintf("gpu-%c", 'a'+i%26)
			if i >= 26 {
				p.name += fmt.Sprint(i / 26)
			}
		}
	}
}

// sizeMachines sizes the machines on a host by what it has.
func (l *layout) sizeMachines(h Host) error {
	servers, workers, want := 0, 0, proxmox.Size(0)
	for _, p := range l.pools {
		for _, host := range p.hosts {
			switch {
			case host != h.Name:
			case p.server:
				servers++
			default:
				workers++
				want += p.workerMemory()
			}
		}
	}
	left := h.Memory - h.Memory*hostsOwnShare/100 - h.Promised - proxmox.Size(servers)*serverMemory
	cores := max(h.CPUs-servers*serverCores, workers)
	storage, free := bestStorage(h)
	disk := share(free*9/10, servers+workers)
	for i := range l.pools {
		p := &l.pools[i]
		if !slices.Contains(p.hosts, h.Name) {
			continue
		}
		p.storage = cmp.Or(p.storage, storage)
		if p.server {
			p.disk = smaller(p.disk, max(min(serverDisk, disk), leastDisk))
			continue
		}
		p.cores, p.memory = max(min(coresPerGPU*max(p.gpus, 1), cores/workers), 1), p.workerMemory()
		if want > left {
			p.memory = min(p.memory, max(left/proxmox.Size(workers), leastMemory))
		}
		p.memory = roundSize(p.memory)
		p.disk = max(min(workerDisk, disk), leastDisk)
	}
	return l.enough(h)
}

// workerMemory is the memory that a worker should have.
func (p pool) workerMemory() proxmox.Size {
	if p.gpus == 0 {
		return 16 * gib
	}
	return memoryPerGPU * proxmox.Size(p.gpus)
}

// enough refuses what a host cannot hold whatever else runs there.
func (l *layout) enough(h Host) error {
	var sum proxmox.Size
	for _, p := range l.pools {
		for _, host := range p.hosts {
			if host == h.Name {
				sum += p.memory
			}
		}
	}
	if sum > h.Memory/gib*gib {
		return fmt.Errorf("host %s has %s of memory, and the smallest machines for this would need %s: ask for more GPUs per worker, so that there are fewer of them, or for fewer servers", h.Name, h.Memory/gib*gib, sum)
	}
	return nil
}

func smaller(a, b proxmox.Size) proxmox.Size {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// share divides by n, to whole GiB.
func share(of proxmox.Size, n int) proxmox.Size {
	return of / proxmox.Size(max(n, 1)) / gib * gib
}

// roundSize is a number that people would write: to 8 GiB from 32 on, else to 4 or 1.
func roundSize(s proxmox.Size) proxmox.Size {
	step := gib
	switch {
	case s >= 32*gib:
		step = 8 * gib
	case s >= 8*gib:
		step = 4 * gib
	}
	return s / step * step
}

// bestStorage is the one with most room among those whose disks are on the host and cost no space before they are
// written; else among the others on the host, else among all. One with no room for a small machine comes last.
func bestStorage(h Host) (name string, free proxmox.Size) {
	rank := func(s proxmox.Storage) int {
		switch {
		case s.Free < 2*leastDisk:
			return 3
		case slices.Contains([]string{"zfspool", "lvmthin", "btrfs", "rbd"}, s.Type):
			return 0
		case !s.Shared:
			return 1
		}
		return 2
	}
	all := diskStorages(h)
	if len(all) == 0 {
		return "", 0
	}
	best := slices.MinFunc(all, func(a, b proxmox.Storage) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Free, a.Free))
	})
	return best.Name, best.Free
}

// diskStorages are those on which disks can be created.
func diskStorages(h Host) []proxmox.Storage {
	return slices.DeleteFunc(slices.Clone(h.Storages), func(s proxmox.Storage) bool {
		why, _ := s.DiskProblem()
		return !s.Active || !slices.Contains(s.Content, "images") || !storageName(s.Name) || why != ""
	})
}

// storageName reports whether a cluster file can hold the name.
func storageName(s string) bool {
	return len(s) > 1 && s[0] >= 'A' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" &&
		s[0] != '_' && !strings.ContainsAny(s[len(s)-1:], "._-")
}

// networks chooses networks for pods and services that touch none that was found.
func (l *layout) networks(f Inventory, a Answers) {
	taken := []netip.Prefix{a.Prefix}
	for _, h := range f.Hosts {
		for _, b := range h.Bridges {
			if p, err := netip.ParsePrefix(b.CIDR); err == nil {
				taken = append(taken, p.Masked())
			}
		}
	}
	for _, pair := range [][2]string{{"10.42.0.0/16", "10.43.0.0/16"}, {"172.30.0.0/16", "172.31.0.0/16"}, {"10.142.0.0/16", "10.143.0.0/16"}, {"192.168.128.0/18", "192.168.192.0/18"}} {
		l.pods, l.service = netip.MustParsePrefix(pair[0]), netip.MustParsePrefix(pair[1])
		if !slices.ContainsFunc(taken, func(t netip.Prefix) bool { return t.Overlaps(l.pods) || t.Overlaps(l.service) }) {
			return
		}
	}
}

// address gives the VIP and the machines their addresses, in the order of the file.
func (l *layout) address(f Inventory, a Answers) error {
	at := a.First
	next := func() (netip.Addr, bool) {
		for ; isHost(a.Prefix, at); at = at.Next() {
			if f.Used[at] == "" && at != a.Gateway {
				got := at
				at = at.Next()
				return got, true
			}
		}
		return netip.Addr{}, false
	}
	var short bool
	if a.Servers > 1 {
		var ok bool
		l.vip, ok = next()
		short = !ok
	}
	for i := range l.pools {
		for range l.pools[i].hosts {
			addr, ok := next()
			short = short || !ok
			l.pools[i].addresses = append(l.pools[i].addresses, addr)
		}
	}
	if short {
		return fmt.Errorf("from %s on the network %s has too few free addresses: %d are needed; begin lower (-first), or take another network", a.First, a.Prefix, f.addresses(a))
	}
	if rest, ok := next(); ok {
		l.propose(rest)
	}
	return nil
}
