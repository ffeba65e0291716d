package cluster

import (
	"github.com/cps-gpu/homelab/cluster/converge/lease"
	"github.com/cps-gpu/homelab/cluster/internal/leasefile"
)

// Lease coordinates runs that change this cluster, no matter on which machine they run. It is a
// VM without disks in Proxmox or, if all machines are external, a file on the first server of
// the file, /var/lib/homelab-NAME.lease.
func (c *Cluster) Lease() lease.Store {
	if c.Proxmox == nil {
		first := c.spec.Servers()[0].Name
		return &leasefile.File{Root: c.nodes.Root(first), Machine: first, Path: leasefile.Folder + "/homelab-" + c.spec.Name + ".lease"}
	}
	hosts := make([]string, len(c.spec.Proxmox.Hosts))
	for i, h := range c.spec.Proxmox.Hosts {
		hosts[i] = h.Name
	}
	return c.Proxmox.Lease(c.spec.Name, hosts...)
}
