package proxmox

import (
	"context"
	"net/netip"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/agent"
	"github.com/cps-gpu/homelab/remote"
)

// Runner returns a Runner that runs commands in vm as root, through the guest agent. It needs no
// network and no login in the guest. It is slow: each command takes at least two requests, and
// output arrives at the end, at most 16 MiB.
func (c *AgentClient) Runner(vm *VM) remote.Runner { return c.agents.Runner(agentOf(vm)) }

// Wait waits until the guest agent answers.
func (c *AgentClient) Wait(ctx context.Context, vm *VM) error { return c.agents.Wait(ctx, agentOf(vm)) }

// ReadFile returns a file of the guest, up to 16 MiB. It is a GET, so it changes and runs
// nothing.
func (c *AgentClient) ReadFile(ctx context.Context, vm *VM, path string) ([]byte, error) {
	return c.agents.ReadFile(ctx, agentOf(vm), path)
}

// ErrShort means that a device of a guest has fewer bytes than were asked for, at least now.
var ErrShort = agent.ErrShort

// ReadStart returns the first count bytes of a file of the guest, at most 16 MiB, and ErrShort if a device has
// fewer at the moment. It is a GET, so it changes and runs nothing. Proxmox VE before 9.2 cannot do it.
func (c *AgentClient) ReadStart(ctx context.Context, vm *VM, path string, count int) ([]byte, error) {
	return c.agents.ReadStart(ctx, agentOf(vm), path, count)
}

// Addresses returns the addresses that a guest has on its first network card as its agent reports
// them, in the guest's order, without loopback and link-local ones. It is for guests that get
// their addresses from a DHCP server.
func (c *AgentClient) Addresses(ctx context.Context, vm *VM) ([]netip.Addr, error) {
	return c.agents.Addresses(ctx, agentOf(vm))
}

// IsAlive reports whether a guest shows a sign of life: it has sent a packet since its start, or
// has run for longer than that takes. It returns true if it cannot see either, so that the guest is
// asked anyway. It makes one GET, which covers all VMs of a host and is shared.
func (c *AgentClient) IsAlive(ctx context.Context, vm *VM) bool {
	return c.agents.IsAlive(ctx, agentOf(vm))
}

// HasSent reports whether a guest has sent a packet since its start, or true if that cannot be seen.
// It shares the GET of IsAlive.
func (c *AgentClient) HasSent(ctx context.Context, vm *VM) bool {
	return c.agents.HasSent(ctx, agentOf(vm))
}

// Uptime returns how long a VM has been switched on, or 0 if that cannot be seen. A restart from
// inside the guest does not reset it. It shares the GET of IsAlive.
func (c *AgentClient) Uptime(ctx context.Context, vm *VM) time.Duration {
	return c.agents.Uptime(ctx, agentOf(vm))
}

// agentOf is what package agent has to know of a VM.
func agentOf(vm *VM) agent.VM {
	first, _ := vm.nic(0)
	return agent.VM{Host: vm.Host, Name: vm.Name, VMID: vm.VMID, Networked: len(vm.NICs) > 0, MAC: first.MAC}
}
