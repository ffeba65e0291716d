package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/remote/ssh"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// openJumps reaches the machines through the jump host of the file, and those with a jump host of their own
// through that.
func (s *Session) openJumps(b *cluster.Backend) (err error) {
	if jump := s.Spec.Access.Jump; jump != "" {
		if b.Dial, err = s.openJump(b, "ssh.jump", jump, nil); err != nil {
			return err
		}
		b.Via = "jump host " + jump
	}
	routes := map[string]dialFunc{} // by a machine's address
	opened := map[string]dialFunc{} // by jump host and key: a connection for each machine could be too many for it
	for _, n := range s.Spec.Nodes {
		if n.Jump == "" {
			continue
		}
		id := n.Jump + " " + n.KeyFile
		if opened[id] == nil {
			if opened[id], err = s.openJump(b, "jump of "+n.Name, n.Jump, b.MachineKeys[n.Name]); err != nil {
				return err
			}
		}
		routes[n.Address.Addr().String()] = opened[id]
	}
	if len(routes) == 0 {
		return nil
	}
	if way := routes[s.Spec.Servers()[0].Address.Addr().String()]; way != nil {
		routes[s.Spec.APIAddress().String()] = way // a VIP is where the servers are
	}
	others := b.Dial
	if others == nil {
		others = new(net.Dialer).DialContext
	}
	b.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(addr); err == nil && routes[host] != nil {
			return routes[host](ctx, network, addr)
		}
		return others(ctx, network, addr)
	}
	return nil
}

// openJump returns a dialler through a jump host, user@host:port. It logs in with own, if there is such a key,
// and the keys of the cluster. If the jump host refuses the login, the error has the key to add, because the
// user has never seen the key derived from the token.
func (s *Session) openJump(b *cluster.Backend, key, place string, own ssh.Signer) (dialFunc, error) {
	if b.KnownHosts == nil {
		return nil, exitErrorf(invalid, "%s: the jump host's key is unknown here: set HOME to a folder whose .ssh/known_hosts has it", key)
	}
	user, addr, ok := strings.Cut(place, "@")
	if !ok {
		return nil, exitErrorf(invalid, "%s %q: write user@host:port", key, place)
	}
	var signers []ssh.Signer
	for _, signer := range append([]ssh.Signer{own}, append(slices.Clip(b.Signers), b.TokenKey)...) {
		if signer != nil {
			signers = append(signers, signer)
		}
	}
	jump := ssh.New(ssh.Config{Addr: addr, User: user, Signers: signers, Agent: b.Agent, HostKeys: b.KnownHosts.HostKeys})
	s.jumps = append(s.jumps, jump)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := jump.Dial(ctx, network, addr)
		var auth *ssh.AuthError
		if !errors.As(err, &auth) || s.Spec.Access.PrivateKey != "" || len(signers) == 0 {
			return conn, err
		}
		return conn, fmt.Errorf("%w\n  add this line to its authorized_keys, or a key that it accepts to the file (ssh.privateKey): %s",
			err, ssh.AuthorizedKey(signers[len(signers)-1].PublicKey()))
	}, nil
}
