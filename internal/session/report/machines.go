package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// external is the place of machines that homelab did not make.
const external = "external machines"

// hosts shows the machines where they are.
func (c *collector) hosts(ctx context.Context, inv *cluster.Inventory, gpus []cluster.GPUInfo) {
	if inv.VMs != nil {
		c.problem("Proxmox VE", "the cluster's VMs cannot be listed: "+inv.VMs.Error(), false)
	}
	if inv.Kube != nil {
		c.problem("Kubernetes", "the nodes and their pods cannot be listed: "+inv.Kube.Error(), false)
	}
	known := c.hostsOfProxmox(ctx)
	index := map[string]int{}
	at := func(name string) *Host {
		i, ok := index[name]
		if !ok {
			i = len(c.Hosts)
			index[name] = i
			h, found := known[name]
			if !found {
				h = Host{Name: name, State: Off, Words: "not known"}
			}
			if name == external {
				h = Host{Name: name, State: Good}
			}
			c.Hosts = append(c.Hosts, h)
		}
		return &c.Hosts[i]
	}
	for _, h := range c.session.Spec.Proxmox.Hosts {
		at(h.Name)
	}
	for _, m := range inv.Machines {
		h := at(cmp.Or(m.Host, external))
		h.Machines = append(h.Machines, c.machine(m, inv, gpus))
	}
	for _, g := range gpus {
		drawn := slices.ContainsFunc(inv.Machines, func(m cluster.Machine) bool { return m.Name == g.Node && m.Host == g.Host })
		if _, ok := index[g.Host]; !ok || drawn {
			continue
		}
		h := at(g.Host)
		h.Cards = append(h.Cards, GPU{Model: g.Model, Address: g.Address, Owner: ownerOf(g), Problem: g.Problem})
	}
	c.Hosts = slices.DeleteFunc(c.Hosts, func(h Host) bool { return h.Name == external && len(h.Machines) == 0 })
}

// hostsOfProxmox are the hosts as Proxmox sees them.
func (c *collector) hostsOfProxmox(ctx context.Context) map[string]Host {
	out := map[string]Host{}
	if c.session.Cluster.Proxmox == nil {
		return out
	}
	hosts, err := c.session.Cluster.Proxmox.Hosts.List(ctx)
	if err != nil {
		c.problem("Proxmox VE", "the hosts cannot be listed: "+err.Error(), false)
		return out
	}
	wanted := func(name string) bool {
		return slices.ContainsFunc(c.session.Spec.Proxmox.Hosts, func(h spec.Host) bool { return h.Name == name })
	}
	for _, h := range hosts {
		x := Host{Name: h.Name, State: Good, Words: "online"}
		if h.CPUs > 0 {
			x.About = fmt.Sprintf("%d cores, %s", h.CPUs, round(h.Memory))
		}
		if !h.Online {
			x.State, x.Words = Bad, "offline"
			if wanted(h.Name) {
				c.problem(h.Name, "the host is offline\n  start it, or repair its network to the other hosts", false)
			}
		}
		out[h.Name] = x
	}
	return out
}

// round is an amount of memory in whole GiB.
func round(s proxmox.Size) string {
	const gib = 1 << 30
	if s < gib {
		return s.String()
	}
	return proxmox.Size((int64(s) + gib/2) / gib * gib).String()
}

// machine shows one machine.
func (c *collector) machine(m cluster.Machine, inv *cluster.Inventory, gpus []cluster.GPUInfo) Machine {
	x := Machine{Name: m.Name, Role: string(m.Role), VMID: m.VMID, Version: m.Version}
	if m.Address.IsValid() {
		x.Address = m.Address.String()
	}
	if !m.Created.IsZero() {
		x.Age = console.Age(inv.Time.Sub(m.Created))
	}
	x.State, x.Words = c.state(m, inv)
	for _, g := range gpus {
		if g.Node == m.Name && g.Host == m.Host {
			problem := ""
			if g.State == cluster.GPUConflict {
				problem = g.Problem
			}
			x.GPUs = append(x.GPUs, GPU{Model: g.Model, Address: g.Address, Problem: problem})
		}
	}
	if n, ok := c.session.Spec.Node(m.Name); ok {
		for len(x.GPUs) < offer.GPUsOf(n).Cards { // of an external machine, or not seen
			x.GPUs = append(x.GPUs, GPU{Model: n.GPUs.Model})
		}
	}
	x.Use = Use{Used: m.GPUs.Used, Total: m.GPUs.Total, Unit: cmp.Or(m.GPUs.Unit, "GPUs")}
	for _, h := range m.GPUs.Holders {
		pod := h.Namespace + "/" + h.Pod
		x.Use.Holders = append(x.Use.Holders, Holder{Name: cmp.Or(h.User, pod), Pod: pod, Count: int(h.Count), Since: h.Since})
	}
	if len(x.GPUs) > 0 && (inv.Kube != nil || !m.Joined) {
		x.Use = Use{Unit: "GPUs", Unknown: "use is not known"}
	}
	return x
}

// state is that of a machine: of its node, or else of its VM and its steps.
func (c *collector) state(m cluster.Machine, inv *cluster.Inventory) (State, string) {
	st, words := Good, "ready"
	if own := c.steps[m.Name]; own != nil {
		st, words = own.state("ready")
	}
	isNode := m.Role.IsNode()
	switch {
	case !m.External && inv.VMs == nil && !m.Made:
		return Off, "has no VM yet"
	case !m.External && inv.VMs == nil && !m.Running:
		c.problem(m.Name, m.VM()+" is off\n  start it, or run homelab cluster:up", false)
		return Bad, "its VM is off"
	case isNode && m.Joined && !m.Ready:
		c.problem(m.Name, "the node is not ready: "+m.Reason, false)
		return Bad, m.Reason
	case isNode && m.Joined && m.Cordoned:
		c.problem(m.Name, fmt.Sprintf("the node is drained and gets no pods\n  homelab node:uncordon -node=%s", printable.Word(m.Name)), true)
		return Waiting, "drained"
	case isNode && inv.Kube == nil && !m.Joined && st == Good:
		return Waiting, "has not joined"
	}
	return st, words
}

// ownerOf says who has a card that no machine of this cluster has.
func ownerOf(g cluster.GPUInfo) string {
	var all []string
	for _, o := range g.Owners {
		all = append(all, o.String())
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, "; ")
	case g.Node != "":
		return "reserved for " + g.Node
	case g.State == cluster.GPUTaken:
		return "another cluster"
	}
	return ""
}
