package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// loginState is how a machine reacts to our keys.
type loginState int

const (
	unseen loginState = iota // it is unreachable, boots, or refuses us
	open                     // it lets us in, or certainly would
	silent                   // it took too long to answer
)

// showTime limits how long a machine may take to show which keys it has. If it accepts a
// connection and says nothing, its own step waits for it.
const showTime = 8 * time.Second

// tryLogin returns nil for a machine that knows our keys, or that is unreachable: its own step
// reports whether that passes.
func (ns *Nodes) tryLogin(ctx context.Context, n spec.Node) (m *keyChange, is loginState, err error) {
	sd, err := ns.Seeds.Seed(n)
	if err != nil {
		return nil, unseen, err
	}
	if !n.Adopt {
		if surely, err := ns.seedHasOurKeys(ctx, n, sd.File); err != nil || surely {
			return nil, open, err
		}
	}
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), n.Name) // nil unless it is a machine of this cluster
	if err != nil || vm == nil || vm.Unfinished || !vm.Running {
		return nil, unseen, err
	}
	m = &keyChange{node: n, vm: vm.Identity(), over: ns.Root(n.Name), open: true}
	var auth *ssh.AuthError
	limited, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	switch have, err := ns.authorizedKeys(limited, m); {
	case ctx.Err() != nil:
		return nil, unseen, ctx.Err()
	case err == nil:
		if m.keys = appendMissing(have, ns.Spec.Access.PublicKeys); len(m.keys) > len(have) {
			return m, open, nil
		}
		return nil, open, nil
	case errors.As(err, &auth), errors.Is(err, proxmox.ErrAgentNotRunning) && ns.listens(ctx, n):
		m, err = ns.requiredKeyChange(ctx, n, vm)
		return m, unseen, err
	case limited.Err() != nil:
		converge.Progressf(ctx, "%s takes more than %s to list its keys: its own step continues", n.Name, showTime)
		return nil, silent, nil
	}
	return nil, unseen, nil
}

// authorizedKeys returns the authorized keys of a machine, read over SSH. Another run may have recreated
// the machine since its host key was stored here.
func (ns *Nodes) authorizedKeys(ctx context.Context, m *keyChange) ([]string, error) {
	have, err := ns.runLoginScript(ctx, m, "show", "")
	var wrong *ssh.HostKeyError
	if !errors.As(err, &wrong) || wrong.Got == "" {
		return have, err
	}
	if err := ns.Hosts.Store(ns.guests[m.node.Name].addr); err != nil {
		return nil, err
	}
	return ns.runLoginScript(ctx, m, "show", "")
}

// seedHasOurKeys reports whether a machine's only seed is the one with our keys. If there is
// another seed, the machine was recreated, and only it knows which seed it booted with.
func (ns *Nodes) seedHasOurKeys(ctx context.Context, n spec.Node, file string) (bool, error) {
	volumes, err := ns.Proxmox.Storages.Volumes(ctx, n.Host, ns.Spec.Image.SeedStorage, "")
	ours, others := false, false
	for _, v := range volumes {
		ours = ours || v.Name() == file
		others = others || v.Name() != file && firstboot.IsSeedOf(ns.Spec, map[string]bool{n.Name: true}, v.Name())
	}
	return ours && !others, err
}

// listens reports whether a machine's SSH server runs. If it does, the machine is not booting.
func (ns *Nodes) listens(ctx context.Context, n spec.Node) bool {
	if n.DHCP() {
		return false // only the agent knows its address
	}
	ctx, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	conn, err := ns.DialTo(ctx, "tcp", ns.guests[n.Name].addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
