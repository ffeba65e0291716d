package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
)

// Wish is what a node should be. It includes labels, so that a node has them when it registers. A node
// that gets them later is Ready without them for a while, and pods land there that must not. After that,
// [Members.NodeStep] keeps them as in the file. id is that of [Kubernetes.ProviderID].
func (ms *Members) Wish(n spec.Node, id string, joins bool) distribution.Wish {
	return distribution.Wish{ProviderID: id, Labels: nodeLabels(ms.Spec, n), Joins: joins}
}

// CutShortRestore says that a restore of this server was cut short: what it would start from is
// neither the old state nor the new one.
func (ks *Kubernetes) CutShortRestore(name string, have distribution.State) error {
	return fmt.Errorf("the restore of %s from %s was cut short, and %s is stopped there: run cluster:restore again, with the same snapshot or another one", name, have.Restoring, ks.title())
}

// title is what the cluster's Kubernetes is called.
func (ks *Kubernetes) title() string { return ks.Distribution.Facts().Title }

// program is what the versions of nodes are versions of.
func program(d distribution.Distribution) string { return cmp.Or(d.Facts().Program, d.Facts().Title) }

// checkUpgrade says why a machine of a role cannot go from a version to that of the file. An agent keeps nothing that
// an older version could not read, so it can be made again.
func checkUpgrade(ks *Kubernetes, role spec.Role, from string) error {
	want := ks.Spec.K3s.Version
	err := ks.Distribution.CheckUpgrade(from)
	if err != nil && role == spec.Agent && ks.Distribution.Compare(from, want) > 0 {
		return fmt.Errorf("%s cannot go from %s back to %s on a machine: homelab node:replace -node=NAME makes an agent again in that version", program(ks.Distribution), from, want)
	}
	return err
}

// MemberStep installs and starts Kubernetes on a node.
func (ms *Members) MemberStep(n spec.Node) *converge.Resource[distribution.Member] {
	step := &converge.Resource[distribution.Member]{
		ID:      ms.Distribution.Facts().StepID(n.Name),
		Observe: func(ctx context.Context) (distribution.Member, error) { return ms.observe(ctx, n) },
		Diff: func(have distribution.Member) converge.Diff {
			s := have.State()
			return have.Diff(ms.Wish(n, s.ProviderID, n.Role == spec.Agent || ms.joins(n, s)))
		},
		Costs:  ms.costsOfMember(n),
		Apply:  func(ctx context.Context, have distribution.Member) error { return ms.convergeServer(ctx, n, have) },
		Settle: joinTime,
		Poll:   run.PollInterval,
	}
	if n.Role == spec.Agent {
		step.Apply = func(ctx context.Context, have distribution.Member) error { return ms.convergeAgent(ctx, n, have) }
	}
	return step
}

// joinTime is how long a node may take to join: etcd adds one member at a time, and the node
// may have to unpack images.
const joinTime = 10 * time.Minute

// observe looks at a member, and returns a permanent error if waiting does not help.
func (ks *Kubernetes) observe(ctx context.Context, n spec.Node) (distribution.Member, error) {
	have, err := ks.Member(ctx, n)
	if err != nil {
		return nil, PermanentIfForeign(err)
	}
	s := have.State()
	if s.Restoring != "" {
		return nil, converge.Permanent(ks.CutShortRestore(n.Name, s))
	}
	if err := ks.checkRegion(n.Name, s.ProviderID); err != nil {
		return nil, converge.Permanent(err)
	}
	if isOtherVersion(s, ks.Spec.K3s.Version) {
		if err := checkUpgrade(ks, n.Role, s.Version); err != nil {
			return nil, converge.Permanent(err)
		}
	}
	if err := have.Refuse(ctx); err != nil {
		if errors.Is(err, distribution.ErrUnfit) && n.Name == ks.Spec.Servers()[0].Name { // all others wait for it
			if all := InspectExternal(ctx, ks); all != nil {
				err = all
			}
		}
		return nil, converge.Permanent(err)
	}
	if s.Stuck != nil && s.Version == ks.Spec.K3s.Version && ks.Nodes.Observation(n.Name).Started.Load() {
		return nil, converge.Permanent(s.Stuck)
	}
	return have, nil
}

// CheckRanges returns an error if a server runs with other networks of pods and services than those of the
// file: one that is recreated with these could not join again. A server that does not answer has no error.
func (ks *Kubernetes) CheckRanges(ctx context.Context, n spec.Node) error {
	have, err := ks.Distribution.Observe(ctx, n)
	if err != nil {
		return ctx.Err()
	}
	return have.CheckRanges()
}

// joins reports whether a server joins a cluster that another server created. The first
// server of the file creates it, unless its configuration shows that it has joined one.
func (ms *Members) joins(n spec.Node, have distribution.State) bool {
	return have.API != "" || n.Name != ms.Spec.Servers()[0].Name
}

func (ms *Members) convergeServer(ctx context.Context, n spec.Node, member distribution.Member) error {
	have := member.State()
	joins, ask := ms.joins(n, have), ms.admit
	if !joins && !have.Configured {
		ask = ms.clusterOfOthers
	}
	admission, err := ask(ctx, n)
	switch {
	case err == nil && !have.Configured:
		joins = true // the cluster already exists without this machine
	case joins && err != nil:
		return err
	case errors.Is(err, ErrNoServer): // this server creates the cluster, or did so earlier
	case err != nil:
		return err
	}
	id, err := ms.ProviderID(ctx, n, have)
	if err != nil {
		return err
	}
	wish := ms.Wish(n, id, joins)
	if !joins { // the server that created the cluster needs nothing to join
		admission = distribution.Admission{}
	}
	if err := ms.claim(ctx, n, have); err != nil {
		return err
	}
	ms.Nodes.Observation(n.Name).Started.Store(true)
	if isOtherVersion(have, ms.Spec.K3s.Version) {
		return ms.upgradeServer(ctx, n, member, func(ctx context.Context) error { return member.Upgrade(ctx, wish, admission) })
	}
	if err := member.Install(ctx); err != nil {
		return err
	}
	ms.Nodes.Observation(n.Name).Absent.Store(false) // from here on others may ask it
	if joins {
		if err := ms.deleteOldNode(ctx, n, have); err != nil {
			return err
		}
	}
	return ms.configure(ctx, n, member, wish, admission)
}

// configure starts a member, or applies other settings to it. If it runs and must restart for
// them, the node first waits for its turn.
func (ms *Members) configure(ctx context.Context, n spec.Node, have distribution.Member, wish distribution.Wish, admission distribution.Admission) error {
	start := func(ctx context.Context) error { return have.Start(ctx, wish, admission) }
	if have.State().Running && have.Diff(wish).Effect() == converge.Restart {
		return ms.RestartMember(ctx, n, start)
	}
	return start(ctx)
}

// clusterOfOthers is admit for a server that would create the cluster. It waits until every
// other server was asked: a server that is only down for a while may have the cluster, and
// there must not be a second one with the same address.
func (ms *Members) clusterOfOthers(ctx context.Context, n spec.Node) (a distribution.Admission, err error) {
	var unformed error
	rule := converge.WaitRule{What: "asking the other servers whether they have the cluster", Limit: nodes.BootTime}
	err = run.Until(ctx, ms.Spec, rule, func(ctx context.Context) (string, error) {
		if a, unformed = ms.admit(ctx, n); errors.Is(unformed, ErrUnformed) {
			return "", nil
		}
		return "", unformed
	})
	if err == nil {
		return a, unformed
	}
	return a, converge.Permanent(fmt.Errorf("%s would create the cluster, but another server may already have it and does not answer: "+
		"bring that server back, or remove it from the file: %s", n.Name, printable.FirstLine(unformed.Error())))
}

func (ms *Members) convergeAgent(ctx context.Context, n spec.Node, member distribution.Member) error {
	id, err := ms.ProviderID(ctx, n, member.State())
	if err != nil {
		return err
	}
	wish := ms.Wish(n, id, true)
	joined, err := ms.hasJoined(ctx, n, member.State())
	if err != nil {
		return err
	}
	if joined {
		return ms.startAgent(ctx, n, member, wish, distribution.Admission{})
	}
	return ms.whileAdmitted(ctx, n, func(ctx context.Context, a distribution.Admission) error {
		if err := ms.startAgent(ctx, n, member, wish, a); err != nil {
			return err
		}
		return ms.waitJoined(ctx, n, a)
	})
}

func (ms *Members) startAgent(ctx context.Context, n spec.Node, member distribution.Member, wish distribution.Wish, admission distribution.Admission) error {
	have := member.State()
	if err := ms.claim(ctx, n, have); err != nil {
		return err
	}
	ms.Nodes.Observation(n.Name).Started.Store(true)
	if isOtherVersion(have, ms.Spec.K3s.Version) {
		return ms.upgradeAgent(ctx, n, func(ctx context.Context) error { return member.Upgrade(ctx, wish, admission) })
	}
	if !have.Running { // a kubelet that starts must not be newer than a server either
		if err := ms.serversFirst(ctx); err != nil {
			return err
		}
	}
	if err := member.Install(ctx); err != nil {
		return err
	}
	if err := ms.deleteOldNode(ctx, n, have); err != nil {
		return err
	}
	return ms.configure(ctx, n, member, wish, admission)
}

// isOtherVersion reports whether a member has another version than wanted.
func isOtherVersion(have distribution.State, want string) bool {
	return have.Role != "" && have.Version != "" && (have.Version != want || have.Outdated != "")
}
