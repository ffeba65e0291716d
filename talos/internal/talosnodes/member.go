package talosnodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/config"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

type member struct {
	nodes   *Nodes
	node    spec.Node
	machine *machine.Machine
	seen    machine.State
	unsupportedMember
}

// State implements [distribution.Member]. A machine that shows its certificate is the cluster's.
func (m *member) State() distribution.State {
	s := distribution.State{Waits: m.seen.Waits}
	c := m.seen.Config()
	if c == nil {
		return s
	}
	s.Role, s.Cluster = m.node.Role, m.nodes.Spec.Name
	s.Configured, s.Started, s.Admitted = true, true, true
	s.Running = m.seen.Kubelet && (s.Role == spec.Agent || m.seen.Etcd)
	_, s.Version, _ = strings.Cut(c.Machine().Kubelet().Image(), ":")
	if ids := c.Machine().Kubelet().ExtraArgs()["provider-id"]; len(ids) > 0 {
		s.ProviderID = ids[0]
	}
	s.API = c.Cluster().Endpoint().String()
	if block, _ := pem.Decode(c.Cluster().IssuingCA().Crt); block != nil {
		sum := sha256.Sum256(block.Bytes)
		s.Authority = hex.EncodeToString(sum[:])
	}
	return s
}

// Refuse implements [distribution.Member].
func (m *member) Refuse(context.Context) error {
	if err := config.Refuse(m.nodes.Spec, m.node); err != nil {
		return err
	}
	return m.CheckRanges()
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
			return fmt.Errorf("k3s.%s: %s has %s, which cannot change: write that, or make a new cluster", r.key, m.node.Name, have)
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

// Start gives the machine its configuration; a server that has it and begins the cluster, begins it. These are two
// steps with an observation between, because a machine is away when it has taken a configuration.
func (m *member) Start(ctx context.Context, w distribution.Wish, _ distribution.Admission) error {
	if m.seen.Waits != "" {
		return nil // it can only be waited for
	}
	want, err := m.nodes.wanted(m.node, w)
	if err != nil {
		return err
	}
	return m.start(ctx, want, m.begins(w))
}

func (m *member) start(ctx context.Context, want secret.Value, begins bool) error {
	text, err := m.seen.Diff(want)
	switch {
	case err != nil:
		return err
	case text != "":
		return m.machine.Apply(ctx, want)
	case begins:
		return m.machine.Bootstrap(ctx)
	}
	return nil
}

var _ distribution.Member = (*member)(nil)
