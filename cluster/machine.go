package cluster

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// vm is the wanted state of a node's VM in Proxmox.
func (c *Cluster) vm(n spec.Node, template, seedFile string) proxmox.VMSpec {
	s := c.spec
	spec := proxmox.VMSpec{
		Name: n.Name, Host: n.Host, VMID: n.VMID, Owner: names.Tag(s), Tags: n.Tags,
		Template: template, Storage: n.OSDisk.Storage,
		Cores: n.Cores, Memory: n.Memory, CPUType: n.CPUType, NUMA: n.NUMA,
		Hugepages: n.Hugepages, Affinity: n.Affinity, TPM: n.TPM,
		OnBoot: n.OnBoot, Startup: startupOption(n.Startup), Description: n.Description, Note: true, Address: n.Address, Claims: claims(s, n),
		Seed:    s.Image.SeedStorage + ":iso/" + seedFile,
		Running: true,
		NICs: []proxmox.NIC{{
			Bridge: n.Network.Bridge, MAC: n.MAC.String(), VLAN: n.Network.VLAN, MTU: n.Network.MTU, Queues: n.Network.Queues,
		}},
		Disks: []proxmox.Disk{disk("scsi0", "", n.OSDisk.DiskOptions)},
	}
	if n.Adopt {
		spec.Adopted, spec.Seed, spec.SecureBoot = true, "", nil
	}
	for _, in := range n.NUMANodes {
		spec.NUMANodes = append(spec.NUMANodes, proxmox.NUMANode(in))
	}
	for i, d := range n.Disks {
		spec.Disks = append(spec.Disks, disk(fmt.Sprintf("scsi%d", i+1), d.Name, d.DiskOptions))
	}
	for i := range n.GPUs.Count {
		spec.GPUs = append(spec.GPUs, proxmox.HostPCI{Mapping: c.mappingOf(n, i), PCIe: n.GPUs.PCIe, ROMBar: n.GPUs.ROMBar})
	}
	return spec
}

// claims are the addresses that the cluster takes beside those of its machines, as the file has
// them. Its servers carry them in their notes, so that the plan of another cluster sees them.
func claims(s *spec.Spec, n spec.Node) []string {
	if n.Role != spec.Server {
		return nil
	}
	var out []string
	if s.K3s.VIP.IsValid() {
		out = append(out, s.K3s.VIP.String())
	}
	if lb := s.Platform.LB; lb != nil {
		out = append(out, lb.Ranges()...)
	}
	return out
}

// mappingOf names the mapping of a node's i-th GPU: an existing one if the file names it,
// otherwise the node's own, which holds all its cards.
func (c *Cluster) mappingOf(n spec.Node, i int) string {
	if len(n.GPUs.Mapping) > 0 {
		return n.GPUs.Mapping[i]
	}
	return names.Mapping(c.spec, n.Name)
}

func disk(slot, serial string, o spec.DiskOptions) proxmox.Disk {
	return proxmox.Disk{
		Slot: slot, Serial: serial, Storage: o.Storage, Size: o.Size,
		SSD: o.SSD, Discard: o.Discard, IOThread: o.IOThread,
	}
}

// startupOption is a boot order as Proxmox writes it: order=1,up=30,down=60, in seconds.
func startupOption(s spec.Startup) string {
	var parts []string
	if s.Order > 0 {
		parts = append(parts, fmt.Sprintf("order=%d", s.Order))
	}
	if s.Up > 0 {
		parts = append(parts, fmt.Sprintf("up=%d", int(s.Up.Seconds())))
	}
	if s.Down > 0 {
		parts = append(parts, fmt.Sprintf("down=%d", int(s.Down.Seconds())))
	}
	return strings.Join(parts, ",")
}
