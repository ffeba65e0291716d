package cluster

import (
	"context"
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/prepare"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/spec"
)

// HostCheck checks whether the hosts can carry what the file asks for. It changes nothing. ssh
// returns a root shell on a host, for what only that can tell; it may be nil. hosts are the
// hosts to check; without any, HostCheck checks all that carry a machine of this cluster.
func (c *Cluster) HostCheck(ctx context.Context, ssh func(ctx context.Context, host string) (remote.Runner, error), hosts ...string) (*preflight.Report, error) {
	if c.Proxmox == nil {
		return nil, ErrNoProxmox
	}
	return preflight.Check(ctx, c.Proxmox, c.want(hosts...), preflight.Options{SSH: ssh, Exact: true})
}

// want is what the file needs from the hosts; from all of them if none is named.
func (c *Cluster) want(hosts ...string) preflight.Want {
	s := c.spec
	if len(hosts) == 0 {
		hosts = prepare.Hosts(s)
	}
	w := preflight.Want{
		Owner: names.Tag(s), Grants: prepare.Grants(s, c.Proxmox.Version()), Looks: prepare.LookGrants(s), Role: prepare.RolePrefix(s), Addresses: map[netip.Addr]string{},
		Place: c.checkCards, Clones: c.templates.Clones,
		Ticket:   s.Proxmox.User == "root@pam", // without a reference, the user is asked for its password
		Mappings: func(_, description string) bool { return description == names.MappingNote(s) },
	}
	if templates.InstallsDriver(s) || s.NVIDIA.DriverMode == spec.DriverOperator {
		policy := templates.DriverPolicy(s, "")
		w.Driver = &policy
		if s.Image.Template == "" && s.NVIDIA.DriverMode == spec.DriverPrebuilt {
			w.Release = s.Image.Release
		}
	}
	for _, host := range hosts {
		h := preflight.Host{Name: host}
		if s.Image.Template == "" {
			h.Template = s.TemplateStorage(host)
		}
		for _, u := range prepare.Uses(s, host) {
			h.Storages = append(h.Storages, preflight.StorageUse{Storage: u.Storage, Content: u.Content, Why: u.Why})
		}
		w.Hosts = append(w.Hosts, h)
		for _, n := range s.Machines() {
			if !n.External && !n.Adopt && n.Host == host { // an adopted VM exists already
				w.VMs = append(w.VMs, c.wantVM(n))
			}
		}
	}
	for _, n := range s.Machines() {
		if !n.DHCP() && !n.External {
			w.Addresses[n.Address.Addr()] = n.Name
		}
	}
	if s.K3s.VIP.IsValid() {
		w.Addresses[s.K3s.VIP] = "the VIP"
	}
	return w
}

// wantVM is what a node needs from its host.
func (c *Cluster) wantVM(n spec.Node) preflight.VM {
	spec := c.vm(n, "", "")
	vm := preflight.VM{
		Name: n.Name, Host: n.Host, VMID: n.VMID, Cores: n.Cores, Memory: spec.Memory, CPUType: n.CPUType,
		NICs: spec.NICs, Disks: spec.Disks, RootOnly: map[string]string{},
		GPUs: preflight.GPUs{Count: n.GPUs.Count, Model: n.GPUs.Model, Mappings: n.GPUs.Mapping},
	}
	for key, value := range map[string]string{"hugepages": spec.Hugepages, "affinity": spec.Affinity} {
		if value != "" && value != proxmox.None {
			vm.RootOnly[key] = value
		}
	}
	vm.GPUs.PCI = append(vm.GPUs.PCI, n.GPUs.PCI...)
	return vm
}

// settled reports whether every machine of the file exists, runs, and has the wanted size: the
// file then needs nothing more from the hosts. Duplicate machines are an error.
func (c *Cluster) settled(ctx context.Context) (bool, error) {
	all, err := c.Proxmox.VMs(ctx, names.Tag(c.spec))
	if err != nil {
		return false, err
	}
	if err := checkDuplicates(all); err != nil {
		return false, err
	}
	there := map[string]proxmox.Summary{}
	for _, vm := range all {
		there[vm.Name] = vm
	}
	for _, n := range c.spec.Machines() {
		vm := there[n.Name]
		if !n.External && (!vm.Running || vm.Host != n.Host || vm.Cores != n.Cores || vm.Memory != n.Memory) {
			return false, nil
		}
	}
	return true, nil
}
