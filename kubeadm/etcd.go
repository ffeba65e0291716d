package kubeadm

import (
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed etcdctl.sh
var etcdctlScript string

// Member is one of etcd's.
type Member struct {
	ID      string
	Name    string     // of its node; "": it was announced and has not started yet
	Address netip.Addr // of its machine
}

// Members are those of the etcd that runs on a server.
func Members(ctx context.Context, r remote.Runner) ([]Member, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", etcdctlScript, "etcdctl.sh", "member", "list")
	if err != nil {
		return nil, fmt.Errorf("list etcd's members: %w", err)
	}
	var all []Member
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), ", ") // ID, status, name, peer URLs, client URLs, learner
		if len(f) < 4 {
			continue
		}
		peer, err := netip.ParseAddrPort(strings.TrimPrefix(f[3], "https://"))
		if err != nil {
			return nil, fmt.Errorf("list etcd's members: %w", err)
		}
		all = append(all, Member{ID: f[0], Name: f[2], Address: peer.Addr()})
	}
	return all, nil
}

// RemoveMember removes a member from etcd, by way of a server that stays. One that is gone is fine. Its machine must not
// go before, where etcd would have too few members left that work: etcd says so.
func RemoveMember(ctx context.Context, r remote.Runner, m Member) error {
	converge.Progressf(ctx, "removing the member of %s from etcd", m.Address)
	err := remote.Run(ctx, r, "sh", "-c", etcdctlScript, "etcdctl.sh", "member", "remove", m.ID)
	var exit *remote.ExitError
	if errors.As(err, &exit) && strings.Contains(exit.Stderr, "member not found") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the member of %s from etcd: %w", m.Address, err)
	}
	return nil
}
