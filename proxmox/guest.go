package proxmox

import (
	"context"
	"net/netip"
	"time"

	"github.com/cps-gpu/homelab/remote"
)

// Guest returns a Runner that runs commands in vm as root, through the guest
// agent. It needs no network in the guest and no login, but is slow: each
// command is two requests at least, and output comes at the end, 16 MiB at most.
func (c *Client) Guest(vm *VM) remote.Runner { return c.agents.Runner(vm) }

// WaitAgent waits until the guest agent answers.
func (c *Client) WaitAgent(ctx context.Context, vm *VM) error { return c.agents.Wait(ctx, vm) }

// AgentReadFile returns a file of the guest, up to 16 MiB. It is a GET: nothing
// is changed or run.
func (c *Client) AgentReadFile(ctx context.Context, vm *VM, path string) ([]byte, error) {
	return c.agents.ReadFile(ctx, vm, path)
}

// AgentAddresses returns the addresses of a guest, as its agent reports them, in
// the guest's order, without loopback and link-local ones. It is for guests that
// get theirs from a DHCP server.
func (c *Client) AgentAddresses(ctx context.Context, vm *VM) ([]netip.Addr, error) {
	return c.agents.Addresses(ctx, vm)
}

// ShowsLife reports whether a guest shows a sign of life: it has sent a packet since its
// start, or runs for longer than that should take. What cannot be seen is no reason not
// to ask it, so then it is true. One GET, which is shared, tells it of all VMs of a host.
func (c *Client) ShowsLife(ctx context.Context, vm *VM) bool { return c.agents.ShowsLife(ctx, vm) }

// Uptime is for how long a VM has been switched on, which a restart from inside does not
// change; 0 where that cannot be seen. Its one GET is that of ShowsLife.
func (c *Client) Uptime(ctx context.Context, vm *VM) time.Duration { return c.agents.Uptime(ctx, vm) }
