package draft

import (
	"net/netip"

	"github.com/cps-gpu/homelab/proxmox"
)

// homes is a small server of people's homes, proposed where there is room for it.
// Without one a home stays on the node of its owner's first notebook.
type homes struct {
	address netip.Addr
	size    proxmox.Size
}

const (
	homesMemory = 4 * gib // what such a VM has unless the file says so
	leastHomes  = 50 * gib
	mostHomes   = 500 * gib
)

// propose puts it on the cluster's first host, with half of the room that the
// machines' disks leave.
func (l *layout) propose(address netip.Addr) {
	h := l.hosts[0]
	memory := h.Memory - h.Memory*hostsOwnShare/100 - h.Promised - homesMemory
	name, free := bestStorage(h)
	free = free * 9 / 10
	for _, p := range l.pools {
		on := proxmox.Size(0)
		for _, host := range p.hosts {
			if host == h.Name {
				on++
			}
		}
		memory -= on * p.memory
		if p.storage == name {
			free -= on * p.disk
		}
	}
	size := min(free/2/(10*gib)*(10*gib), mostHomes)
	if memory >= 0 && size >= leastHomes {
		l.homes = homes{address, size}
	}
}
