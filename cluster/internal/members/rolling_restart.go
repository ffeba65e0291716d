package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
)

// TakeDown drains a node, calls do, and waits until the node is as healthy as before. It waits
// while another node is down, and after a failure no other node goes down in this run.
func (ts *Turns) TakeDown(ctx context.Context, n spec.Node, do func(context.Context) error) error {
	return ts.inTurn(ctx, n, maintenance{away: ts.othersUnhealthy, do: do})
}

// Upgrade is TakeDown for another driver, toolkit or kernel, and for GPUs that are divided in another
// way: pods that hold the node's GPUs get the time of the file to end, as with another version of Kubernetes.
// keeps is what the node keeps if they do not.
func (ts *Turns) Upgrade(ctx context.Context, n spec.Node, keeps string, do func(context.Context) error) error {
	return ts.inTurn(ctx, n, maintenance{away: ts.othersUnhealthy, gpuGrace: keeps, do: do})
}

// nodePackages is what a node keeps whose pods hold up its packages.
const nodePackages = "its packages"

// UpgradeSystem is Upgrade for the packages of a machine: a server goes down only while the etcd member
// of every other one works, and the next node only when its own works again. do may end with a [StayedUp].
func (ms *Members) UpgradeSystem(ctx context.Context, n spec.Node, do func(context.Context) error) error {
	m := maintenance{away: ms.othersUnhealthy, gpuGrace: nodePackages, do: do}
	if n.Role == spec.Server {
		m.away, m.after = ms.othersOrEtcdUnhealthy, func(ctx context.Context) error { return ms.waitEtcd(ctx, n) }
	}
	return ms.inTurn(ctx, n, m)
}

// StayedUp says that a drained node did not go down and takes pods again: nothing needed a restart, or
// what comes before it failed.
type StayedUp struct{ Err error }

func (s *StayedUp) Error() string { return fmt.Sprint(s.Err) }

// Cycle is TakeDown for a node that the user has named: other agents may be down.
func (ts *Turns) Cycle(ctx context.Context, n spec.Node, do func(context.Context) error) error {
	return ts.inTurn(ctx, n, maintenance{away: ts.serversAway, do: do})
}

// maintenance is what happens to a node in its turn.
type maintenance struct {
	away     unhealthyFunc               // what must be up
	gpuGrace string                      // pods that hold GPUs get the time of the file to end, else the node keeps this; "": they get none
	first    func(context.Context) error // before the node is drained; may be nil
	do       func(context.Context) error
	after    func(context.Context) error // once the node is back; may be nil
}

func (ts *Turns) inTurn(ctx context.Context, n spec.Node, v maintenance) (err error) {
	done, err := ts.acquireTurnWithGPUs(ctx, n, v)
	if err != nil {
		return err
	}
	defer done()
	if v.first != nil {
		err = v.first(ctx)
	}
	if err == nil { // it may have waited for hours
		err = converge.Confirm(ctx)
	}
	if err != nil {
		return errors.Join(err, ts.uncordonAgain(ctx, n, v))
	}
	defer func() {
		if !errors.As(err, new(stayReason)) {
			ts.noteUnhealthy(ctx, err, n.Name)
		}
	}()
	var was *kube.Node
	if n.Role != spec.FileServer { // mounts are hard: clients of a file server wait until it is back
		was, err = ts.drainNode(ctx, n)
	}
	if errors.As(err, new(stayReason)) {
		return errors.Join(err, ts.uncordonAgain(ctx, n, v))
	}
	if err != nil {
		return err
	}
	err = v.do(ctx)
	if up := new(StayedUp); errors.As(err, &up) {
		if was != nil {
			up.Err = errors.Join(up.Err, ts.Uncordon(ctx, n.Name))
		}
		return up.Err
	}
	if err != nil || was == nil {
		return err
	}
	if err := ts.waitRecovered(ctx, n, was); err != nil || v.after == nil {
		return err
	}
	return v.after(ctx)
}

// RestartMember restarts a member with other settings, by calling do. The node keeps its pods, and they
// keep running. But only the restart shows whether a kubelet starts with these settings, so
// nodes take turns here too.
func (ts *Turns) RestartMember(ctx context.Context, n spec.Node, do func(context.Context) error) (err error) {
	done, err := ts.turnWhenHealthy(ctx, n, ts.othersUnhealthy)
	if err != nil {
		return err
	}
	defer done()
	was, err := ts.ObserveNode(ctx, n.Name)
	switch {
	case err != nil && ts.isOnlyServer(n) && ctx.Err() == nil: // the API may need other settings
		was = nil
	case err != nil:
		return err
	}
	defer func() { ts.noteUnhealthy(ctx, err, n.Name) }()
	if err := do(ctx); err != nil || was == nil {
		return err
	}
	return ts.waitReported(ctx, n, was)
}

// waitReported waits until a member is up after a restart and its kubelet has reported that the
// node is Ready. Kubernetes trusts the last report for 40 seconds, so only a report after the
// restart counts.
func (ts *Turns) waitReported(ctx context.Context, n spec.Node, was *kube.Node) error {
	title := ts.title()
	rule := converge.WaitRule{What: "waiting for " + title + " on " + n.Name, Limit: joinTime,
		TimeoutText: n.Name + " is not Ready with its new " + title + " settings"}
	return run.Until(ctx, ts.Spec, rule, func(ctx context.Context) (string, error) {
		member, err := ts.observe(ctx, n)
		if err != nil {
			return "", err
		}
		if s := member.State(); !s.Running {
			return title + " is " + s.Waits, nil
		}
		have, err := ts.ObserveNode(ctx, n.Name)
		switch {
		case err != nil:
			return "", err
		case have == nil:
			return "the cluster has no such node", nil
		case !have.Reported.After(was.Reported):
			return "its kubelet has not reported since the restart", nil
		case !have.Ready:
			return have.Reason, nil
		}
		return "", nil
	})
}

// waitRecovered waits until a node is as healthy as before it was taken down.
func (ts *Turns) waitRecovered(ctx context.Context, n spec.Node, was *kube.Node) error {
	if err := ts.waitReadyWithGPUs(ctx, was); err != nil || n.Role != spec.Server {
		return err
	}
	return ts.APIBack(ctx, APITime)
}

// drainNode drains a node and returns its earlier state: nil if it has not joined.
func (ts *Turns) drainNode(ctx context.Context, n spec.Node) (*kube.Node, error) {
	was, err := ts.ObserveNode(ctx, n.Name)
	switch {
	case errors.Is(err, ErrUnformed):
		converge.Progressf(ctx, "there is no cluster yet, so %s is not drained", n.Name)
		return nil, nil
	case err != nil && ts.isOnlyServer(n) && ctx.Err() == nil:
		converge.Progressf(ctx, "%s is the only server and its API does not answer, so it continues without a drain: %s", n.Name,
			printable.FirstLine(err.Error()))
		return nil, nil
	case err != nil || was == nil:
		return nil, err
	}
	return ts.DrainFor(ctx, n.Name)
}

// waitReadyWithGPUs waits until a node that went down is Ready again with the GPUs that it had, and
// then uncordons it. Kubernetes shows a node as Ready for 40 seconds after the last report of
// its kubelet, so only a report of another boot or version counts.
func (ts *Turns) waitReadyWithGPUs(ctx context.Context, was *kube.Node) error {
	n, _ := ts.Spec.Node(was.Name)
	gpus := map[string]int64{}
	if ts.HasPlugin() && !ts.redivided(n, was) { // only as many of its earlier GPUs as the file lets it keep
		for name, want := range offer.GPUsOf(n).Resources {
			gpus[name] = min(was.Count(name), int64(want))
		}
	}
	rule := converge.WaitRule{What: "waiting for " + n.Name + " to be back", Limit: nodes.BootTime + ts.offerTime(),
		TimeoutText: n.Name + " has not recovered"}
	return run.Until(ctx, ts.Spec, rule, func(ctx context.Context) (string, error) {
		client, err := ts.Kube(ctx)
		if err != nil {
			return "", err
		}
		have, err := client.Node(ctx, n.Name)
		switch {
		case err != nil:
			return "", err
		case have.BootID == was.BootID && have.Version == was.Version:
			return "it is down", nil
		case !have.Ready:
			return have.Reason, nil
		}
		for _, name := range slices.Sorted(maps.Keys(gpus)) {
			if have.Count(name) < gpus[name] {
				return fmt.Sprintf("Ready, with %d of %d %s", have.Count(name), gpus[name], strings.Replace(name, nvidia.Resource, "GPUs", 1)), nil
			}
		}
		return "", client.Uncordon(ctx, n.Name)
	})
}
