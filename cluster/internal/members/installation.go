package members

import (
	"context"
	"errors"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/k3s"
)

// Installation is what a machine has of Kubernetes, as far as steps outside of this package ask. Which
// Kubernetes that is, they do not know.
type Installation struct {
	SetUp   bool   // it is a server or an agent; a program alone may be another owner's
	Running bool   // for an agent: it has joined
	Cluster string // the cluster that has marked it as its own; "": none
}

// Installation reads what a machine has. The error is one of [IsForeign] if that belongs to another cluster.
func (ks *Kubernetes) Installation(ctx context.Context, n spec.Node) (Installation, error) {
	have, err := k3s.Observe(ctx, ks.Nodes.Root(n.Name))
	if err == nil {
		err = ks.Owns(ctx, n, have)
	}
	if err != nil {
		return Installation{}, err
	}
	return Installation{SetUp: have.Role != k3s.RoleNone, Running: have.Running(), Cluster: have.Cluster}, nil
}

// IsBare reports whether nothing of Kubernetes is set up on a machine, so that a restart interrupts
// nothing. A machine that does not answer may have something.
func (ks *Kubernetes) IsBare(ctx context.Context, n spec.Node) bool {
	if ks.Nodes.Observation(n.Name).Absent.Load() {
		return true
	}
	have, err := k3s.Observe(ctx, ks.Nodes.Root(n.Name))
	return err == nil && have.Role == k3s.RoleNone
}

// Uninstall removes Kubernetes with its data from a machine, which the caller has drained.
func (ks *Kubernetes) Uninstall(ctx context.Context, n spec.Node) error {
	return k3s.Remove(ctx, ks.Nodes.Root(n.Name))
}

// FirstServerStep is [Members.K3sStep] for the server that creates the cluster. As long as nothing was
// ever set up there, it asks mayCreate, whose error keeps it from that.
func (ms *Members) FirstServerStep(n spec.Node, mayCreate func(context.Context) error) converge.Step {
	step := ms.K3sStep(n)
	observe := step.Observe
	step.Observe = func(ctx context.Context) (k3s.State, error) {
		have, err := observe(ctx)
		if err == nil && have.Role == k3s.RoleNone && have.Config == nil {
			err = mayCreate(ctx)
		}
		return have, err
	}
	return step
}

// IsForeign reports whether an error says that what a machine has belongs to another cluster.
func IsForeign(err error) bool {
	var others *k3s.ForeignClusterError
	return errors.As(err, &others)
}
