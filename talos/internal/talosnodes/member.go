package talosnodes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

type member struct {
	nodes    *Nodes
	node     spec.Node
	machine  *machine.Machine
	seen     machine.State
	restored bool // it was sent a snapshot to begin with
}

// State implements [distribution.Member]. A machine that shows its certificate is the cluster's.
func (m *member) State() distribution.State {
	s := distribution.State{Waits: m.seen.Waits, Away: m.seen.Waits != ""}
	c := m.seen.Config()
	if c == nil {
		return s
	}
	s.Role, s.Cluster = m.node.Role, m.nodes.Spec.Name
	// A server has a configuration before it has the cluster, and that does not say whether it begins it or joins it.
	// So until etcd runs it counts as one that has none: the other servers are asked again before it begins the
	// cluster, however often a run was killed.
	s.Configured = s.Role == spec.Agent || m.seen.Etcd
	s.Restoring = m.seen.Restoring()
	s.Started, s.Admitted, s.Running = true, true, m.seen.Kubelet && s.Configured
	s.Version, s.Outdated = m.kubelet(), m.outdated()
	if ids := c.Machine().Kubelet().ExtraArgs()["provider-id"]; len(ids) > 0 {
		s.ProviderID = ids[0]
	}
	if s.Role == spec.Agent { // a server with etcd needs no other one, no matter which one began the cluster
		s.API = c.Cluster().Endpoint().String()
	}
	if block, _ := pem.Decode(c.Cluster().IssuingCA().Crt); block != nil {
		sum := sha256.Sum256(block.Bytes)
		s.Authority = hex.EncodeToString(sum[:])
	}
	return s
}

// Refuse implements [distribution.Member].
func (m *member) Refuse(context.Context) error {
	return errors.Join(m.checkTalos(), m.CheckRanges())
}

// CheckRanges implements [distribution.Member].
func (m *member) CheckRanges() error {
	c := m.seen.Config()
	if c == nil {
		return nil
	}
	for _, r := range []struct {
		key  string
		have []string
		want spec.Ranges
	}{{"podCIDR", c.Cluster().Network().PodCIDRs(), m.nodes.Spec.K3s.PodCIDR}, {"serviceCIDR", c.Cluster().Network().ServiceCIDRs(), m.nodes.Spec.K3s.ServiceCIDR}} {
		if have := strings.Join(r.have, ","); have != r.want.String() {
			return fmt.Errorf("talos.%s: %s has %s, which cannot change: write that, or make a new cluster", r.key, m.node.Name, have)
		}
	}
	return nil
}

// Foreign is never asked: Observe fails for a machine of another cluster.
func (m *member) Foreign() error { return distribution.ErrForeign }

// Diff implements [distribution.Member].
func (m *member) Diff(w distribution.Wish) converge.Diff {
	if m.seen.Waits != "" {
		return converge.Diff{{Have: m.seen.Waits, Want: "an answer", Effect: converge.Create}}
	}
	want, err := m.nodes.wanted(m.node, w)
	var text string
	if err == nil {
		text, err = m.seen.Diff(want)
	}
	switch {
	case err != nil: // Refuse and Start say it
		return converge.Diff{{Path: "configuration", Want: err.Error(), Effect: converge.Create}}
	case !m.seen.Configured:
		return converge.Diff{{Path: "configuration", Want: "as in the file", Effect: converge.Create}}
	case len(m.versions()) > 0: // the rest of the configuration comes with them
		return m.versions()
	case text != "":
		return converge.Diff{{Path: "configuration", Have: "another one", Want: "as in the file", Effect: converge.Restart, Note: text}}
	case m.begins(w):
		return converge.Diff{{Path: "etcd", Have: "no cluster", Want: "a new cluster", Effect: converge.Create}}
	}
	return nil
}

// begins reports whether this server has to begin the cluster now.
func (m *member) begins(w distribution.Wish) bool {
	return m.node.Role == spec.Server && !w.Joins && !m.seen.Etcd
}

// Install does nothing: the program is the image.
func (m *member) Install(context.Context) error { return nil }

// Start gives the machine its configuration. The server that creates the cluster then begins it, once it answers again:
// a machine is away for a moment when it has taken a configuration, and it does not begin by itself.
func (m *member) Start(ctx context.Context, w distribution.Wish, _ distribution.Admission) error {
	if m.restored {
		return m.recover(ctx)
	}
	if m.seen.Waits != "" {
		if err := m.answer(ctx); err != nil {
			return err
		}
	}
	if what := m.seen.Restoring(); what != "" {
		if w.Joins {
			return nil // it does by itself
		}
		return converge.Permanent(fmt.Errorf("%s answers again, and its restore from %s was cut short: run cluster:restore again", m.node.Name, what))
	}
	want, err := m.nodes.wanted(m.node, w)
	if err != nil {
		return err
	}
	text, err := m.seen.Diff(want)
	if err == nil && text != "" {
		err = m.machine.Apply(ctx, want)
	}
	if err != nil || !m.begins(w) {
		return err
	}
	return m.nodes.wait(ctx, beginTime, m.node.Name+" did not begin the cluster", func(ctx context.Context) (string, error) {
		seen, err := m.machine.Observe(ctx)
		if err != nil || !seen.Configured {
			return cmp.Or(seen.Waits, "it has no configuration yet"), err
		}
		err = m.machine.Bootstrap(ctx)
		if errors.Is(err, machine.ErrNotYet) {
			return err.Error(), nil
		}
		return "", err
	})
}

// look waits until the machine answers.
func (m *member) look(ctx context.Context) error {
	return m.nodes.wait(ctx, beginTime, m.node.Name+" does not answer", func(ctx context.Context) (string, error) {
		seen, err := m.machine.Observe(ctx)
		m.seen = seen
		return seen.Waits, err
	})
}

// answer is look for a machine of which nobody knew what it has. What costs more than a restart of Kubernetes was not
// agreed to.
func (m *member) answer(ctx context.Context) error {
	err := m.look(ctx)
	if err == nil && len(m.versions()) > 0 {
		err = converge.Permanent(fmt.Errorf("%s answers again, and %s: run homelab cluster:up again, which upgrades it", m.node.Name, m.versions()))
	}
	return err
}

const (
	answerPause = 2 * time.Second  // between two looks whether a machine answers again
	beginTime   = 10 * time.Minute // until it takes part in a cluster: it fetches images before
)

var _ distribution.Member = (*member)(nil)
