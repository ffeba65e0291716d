package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/remote"
)

// HostCheck checks whether the hosts can carry what the file asks for. It changes nothing. ssh
// returns a root shell on a host, for what only that can tell; it may be nil. hosts are the
// hosts to check; without any, HostCheck checks all that carry a machine of this cluster.
func (c *Cluster) HostCheck(ctx context.Context, ssh func(ctx context.Context, host string) (remote.Runner, error), hosts ...string) (*preflight.Report, error) {
	f := c.site.flow()
	if f.Proxmox == nil {
		return nil, ErrNoProxmox
	}
	return preflight.Check(ctx, f.Proxmox, f.requirements(hosts...), preflight.Options{SSH: ssh, Exact: true})
}

// local reports whether host:port is on this machine.
func local(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	addr, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && addr.IsLoopback())
}

// requirements is what the file needs from the hosts; from all of them if none is named.
func (c *holdings) requirements(hosts ...string) preflight.Requirements {
	s := c.spec
	if len(hosts) == 0 {
		hosts = hostprep.Hosts(s)
	}
	w := preflight.Requirements{
		Owner: names.Tag(s), Grants: hostprep.Grants(s, c.Proxmox.Version()), ReadGrants: hostprep.ReadGrants(s), Role: hostprep.RolePrefix(s),
		Place: c.checkCards, Devices: c.checkDevices, Volumes: c.volumesChecked(), Clones: c.templates.Clones, Dial: c.nodes.DialTo,
		Ticket:   s.Proxmox.User == "root@pam", // without a reference, the user is asked for its password
		Mappings: func(_, description string) bool { return description == names.MappingNote(s) },
	}
	if c.Dial == nil && local(c.Proxmox.Endpoint()) {
		w.Dial = nil // a tunnel or a simulator: this machine is not in its guests' network
	}
	if s.InstallsDriver() || s.NVIDIA.DriverMode == spec.DriverOperator {
		policy := templates.DriverPolicy(s, "")
		w.Driver = &policy
		if s.Image.Template == "" && s.NVIDIA.DriverMode == spec.DriverPrebuilt {
			w.Release = s.Image.Release
		}
	}
	for _, host := range hosts {
		h := preflight.Host{Name: host}
		if s.Image.Template == "" && slices.Contains(c.templates.Hosts(), host) {
			h.Template = s.TemplateStorage(host)
		}
		for _, u := range hostprep.Uses(s, host) {
			h.Storages = append(h.Storages, preflight.StorageUse{Storage: u.Storage, Content: u.Content, Purpose: u.Why, Claims: u.Claims})
		}
		w.Hosts = append(w.Hosts, h)
		for _, n := range s.Machines() {
			if n.OnProxmox() && !n.Adopt && n.Host == host { // an adopted VM exists already
				w.VMs = append(w.VMs, c.vmRequirements(n))
			}
		}
	}
	w.Addresses = c.addresses()
	return w
}

// addresses are all addresses that the cluster takes, and who takes them.
func (c *holdings) addresses() []preflight.Address {
	s := c.spec
	single := func(a netip.Addr) proxmox.Range { return proxmox.Range{First: a, Last: a} }
	var out []preflight.Address
	var servers []string
	external := false
	for _, n := range s.Machines() {
		if n.Role == spec.Server {
			servers, external = append(servers, n.Name), external || n.External
		}
		if !n.DHCP() && n.OnProxmox() {
			out = append(out, preflight.Address{
				Range: single(n.Address.Addr()), Owner: n.Name, By: []string{n.Name}, Exists: n.Adopt, Place: s.Places["node "+n.Name],
			})
		}
		if n.OnProxmox() && n.Address6.IsValid() {
			out = append(out, preflight.Address{Range: single(n.Address6.Addr()), Owner: n.Name, By: []string{n.Name}, Exists: n.Adopt, Place: s.Places["node "+n.Name+" 6"]})
		}
		for _, card := range n.Networks {
			if a := card.Address.Addr(); a.IsValid() {
				out = append(out, preflight.Address{Range: single(a), Owner: n.Name, By: []string{n.Name}, Exists: n.Adopt, Place: s.Places["node "+n.Name+" "+card.Name]})
			}
		}
	}
	if s.K3s.VIP.IsValid() {
		out = append(out, preflight.Address{Range: single(s.K3s.VIP), Owner: "the VIP", By: servers, Shared: true, Exists: external,
			Place: s.Places["vip"]})
	}
	if lb := s.Platform.LB; lb != nil {
		for _, text := range lb.Ranges() {
			r, err := proxmox.ParseRange(text)
			if err != nil {
				continue // the file's own check has refused it
			}
			out = append(out, preflight.Address{Range: r, Owner: "the load balancer", By: servers, Shared: true, Exists: external,
				Place: s.Places["pool "+text]})
		}
	}
	return out
}

// vmRequirements is what a node needs from its host.
func (c *holdings) vmRequirements(n spec.Node) preflight.VM {
	to := c.vm(n, "", "")
	vm := preflight.VM{
		Name: n.Name, Host: n.Host, VMID: n.VMID, Cores: n.Cores, Memory: to.Memory, CPUType: n.CPUType,
		NICs: to.NICs, Disks: to.Disks, Pool: to.Pool, Groups: n.SecurityGroups, Devices: len(to.Devices), RootOnly: map[string]string{},
		GPUs: preflight.GPUs{Count: len(to.GPUs), Model: n.GPUs.Model, Mappings: n.GPUs.Mapping},
	}
	for key, value := range map[string]string{"hugepages": to.Hugepages, "affinity": to.Affinity} {
		if value != "" && value != proxmox.None {
			vm.RootOnly[key] = value
		}
	}
	vm.GPUs.PCI = append(vm.GPUs.PCI, n.GPUs.PCI...)
	return vm
}

// allMachinesAsFile reports whether every machine of the file exists, runs, and has the wanted size: the
// file then needs nothing more from the hosts. Duplicate machines are an error.
func (c *holdings) allMachinesAsFile(ctx context.Context) (bool, error) {
	all, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
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
		if n.OnProxmox() && (!vm.Running || vm.Host != n.Host || vm.Cores != n.Cores || vm.Memory != n.Memory) {
			return false, nil
		}
	}
	return true, nil
}

// countNamed counts the VMs with the name of vm. Templates on other hosts do not count, since
// every host has its own.
func countNamed(all []proxmox.Summary, vm proxmox.Summary) int {
	n := 0
	for _, other := range all {
		if other.Name == vm.Name && (other.Host == vm.Host || !vm.Template) {
			n++
		}
	}
	return n
}

// checkDuplicates returns an error if VMs of the cluster have the same name, as after two runs at
// once. A copy by another owner does not count.
func checkDuplicates(all []proxmox.Summary) error {
	var twice []string
	which := map[string][]string{}
	for _, vm := range all {
		if countNamed(all, vm) == 1 {
			continue
		}
		state := "off"
		switch {
		case vm.Template:
			state = "a template"
		case vm.Running:
			state = "runs"
		}
		which[vm.Name] = append(which[vm.Name], fmt.Sprintf("VM %d on %s (%s)", vm.VMID, vm.Host, state))
		twice = append(twice, vm.Name)
	}
	if len(twice) == 0 {
		return nil
	}
	slices.Sort(twice)
	text := "machines of this cluster exist twice, and which of them are in use is unknown:"
	for _, name := range slices.Compact(twice) {
		text += fmt.Sprintf("\n  %s: %s", name, strings.Join(which[name], ", "))
	}
	return errors.New(text + "\n" +
		"  check what is on them, and remove the duplicates, as root on their host: qm stop VMID; qm destroy VMID --purge\n" +
		"  or remove all of them with homelab cluster:down, which lists them and asks first, and create the cluster again")
}
