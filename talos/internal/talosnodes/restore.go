package talosnodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

// joinPatience is how long a wiped server is left to join the restored one by itself, before it is wiped again: it may
// have joined what was left of the cluster as it was.
const joinPatience = 3 * time.Minute

// Stop implements [distribution.Keeper]: etcd cannot be stopped on its own, so the machine is wiped. Once wiped it joins any other
// server that still runs; so the first server is wiped again before it begins, and another one if it has not joined the first.
func (ns *Nodes) Stop(ctx context.Context, server, what string) error {
	n, ok := ns.Spec.Node(server)
	if !ok {
		return fmt.Errorf("the file has no node %s", server)
	}
	first := ns.Spec.Servers()[0]
	if server != first.Name && what == distribution.RestoredBy(first.Name) {
		if joined, err := ns.hasJoined(ctx, n, first); err != nil || joined {
			return err
		}
	}
	m, err := ns.reach(n)
	if err == nil {
		err = ns.wipe(ctx, m, what)
	}
	return err
}

// hasJoined waits until a server is a member of the etcd of another one.
func (ns *Nodes) hasJoined(ctx context.Context, n, first spec.Node) (bool, error) {
	of, err := ns.reach(first)
	if err != nil {
		return false, err
	}
	err = ns.wait(ctx, joinPatience, n.Name+" does not join "+first.Name, func(ctx context.Context) (string, error) {
		all, err := of.Members(ctx)
		switch {
		case machine.IsAway(err):
			return err.Error(), nil
		case err != nil:
			return "", err
		case !slices.Contains(all, n.Name):
			return "etcd has no member " + n.Name, nil
		}
		return "", nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// wipe marks a server, so that no cluster:up takes it for the beginning of a new cluster, and wipes it. It returns when the machine
// has started again.
func (ns *Nodes) wipe(ctx context.Context, m *machine.Machine, what string) error {
	seen, err := ns.answers(ctx, m)
	switch {
	case err != nil:
		return err
	case !seen.Configured:
		return converge.Permanent(fmt.Errorf("%s has no configuration yet: run cluster:up first", m.Name))
	}
	if err := m.Mark(ctx, seen, what); err != nil {
		return err
	}
	if _, err := ns.answers(ctx, m); err != nil { // it may be away, for its configuration
		return err
	}
	was, err := m.Boot(ctx)
	if err != nil {
		return err
	}
	converge.Progressf(ctx, "wiping its disk, and restarting")
	if err := m.Wipe(ctx); err != nil {
		return err
	}
	return ns.wait(ctx, beginTime, m.Name+" does not start again", func(ctx context.Context) (string, error) {
		is, err := m.Boot(ctx)
		switch {
		case machine.IsAway(err):
			return err.Error(), nil
		case err == nil && is == was:
			return "it still runs", nil
		}
		return "", err
	})
}

// answers waits until a machine answers.
func (ns *Nodes) answers(ctx context.Context, m *machine.Machine) (seen machine.State, err error) {
	err = ns.wait(ctx, beginTime, m.Name+" does not answer", func(ctx context.Context) (string, error) {
		seen, err = m.Observe(ctx)
		return seen.Waits, err
	})
	return seen, err
}

// Restore implements [distribution.Member]: the machine has the snapshot when it returns, and Start begins with it.
func (m *member) Restore(ctx context.Context, _ distribution.Wish, s distribution.SavedSnapshot, key secret.Value, r io.Reader) error {
	if err := m.nodes.CheckKey(key); err != nil {
		return distribution.Means(err, distribution.ErrKey)
	}
	err := m.nodes.wait(ctx, beginTime, m.node.Name+" takes no snapshot", func(ctx context.Context) (string, error) {
		err := m.machine.TakesSnapshot(ctx)
		if machine.IsAway(err) {
			return err.Error(), nil
		}
		return "", err
	})
	if err != nil {
		return err
	}
	converge.Progressf(ctx, "sending the snapshot")
	sum := sha256.New()
	if err := m.machine.SendSnapshot(ctx, io.TeeReader(r, sum)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != s.SHA256 {
		return converge.Permanent(fmt.Errorf("%s is not the snapshot that was to be restored: its digest is another one", s.Name))
	}
	m.restored = true
	return nil
}

// recover begins the cluster with the snapshot that was sent. A server that has data of etcd although it was wiped has joined
// another one: only an answer that was lost makes that data its own.
func (m *member) recover(ctx context.Context) error {
	asked := false
	return m.nodes.wait(ctx, beginTime, m.node.Name+" did not begin the cluster", func(ctx context.Context) (string, error) {
		err := m.machine.Recover(ctx)
		switch {
		case errors.Is(err, machine.ErrHasData) && asked:
			return "", nil
		case errors.Is(err, machine.ErrNotYet):
			return err.Error(), nil
		case machine.IsAway(err):
			asked = true
			return err.Error(), nil
		}
		return "", err
	})
}

// Finish implements [distribution.Keeper].
func (ns *Nodes) Finish(ctx context.Context, server string) error {
	n, ok := ns.Spec.Node(server)
	if !ok {
		return fmt.Errorf("the file has no node %s", server)
	}
	m, err := ns.reach(n)
	if err != nil {
		return err
	}
	seen, err := ns.answers(ctx, m)
	if err != nil || !seen.Configured {
		return err
	}
	if err := m.Mark(ctx, seen, ""); err != nil {
		return err
	}
	_, err = ns.answers(ctx, m) // it may be away, for its configuration
	return err
}

// Readmit implements [distribution.Keeper]: the restored cluster has the authorities that the agent knows, and its kubelet
// registers again.
func (ns *Nodes) Readmit(ctx context.Context, _ string, n spec.Node) error {
	return ns.Restart(ctx, n, distribution.Admission{})
}
