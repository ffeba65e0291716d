package members

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
)

// NodeStep keeps a node Ready with the labels and taints of the file, and removes those that
// are no longer in the file.
func (ms *Members) NodeStep(n spec.Node) *converge.Resource[*kube.Node] {
	marks := ms.Marks(n)
	return &converge.Resource[*kube.Node]{
		ID:      "node/" + n.Name,
		Observe: func(ctx context.Context) (*kube.Node, error) { return ms.ObserveNode(ctx, n.Name) },
		Diff: func(have *kube.Node) converge.Diff {
			if have == nil {
				return converge.Diff{{Have: "not registered", Want: "Ready", Effect: converge.Create}}
			}
			d := marks.Diff(*have)
			if !have.Ready {
				d = append(d, converge.Field{Path: "status", Have: "not ready: " + have.Reason, Want: "Ready", Effect: converge.Create})
			}
			if have.Cordoned {
				d = append(d, converge.Field{Path: "scheduling", Have: "cordoned", Want: "allowed", Effect: converge.Update})
			}
			d = append(d, converge.Compare("version", have.Version, ms.Spec.K3s.Version, converge.Restart)...)
			return append(d, recordDiff(marks, *have, d.Empty())...)
		},
		Costs: ms.costsOfMarks(n, marks),
		Apply: func(ctx context.Context, have *kube.Node) error {
			if have == nil {
				if err := ms.waitRegistered(ctx, n); err != nil {
					return err
				}
			}
			return ms.SettleNode(ctx, n.Name, marks)
		},
		Settle: ReadyTime,
		Poll:   run.PollInterval,
	}
}

// recordDiff says which labels and taints exist already and are homelab's from now on. A node that has
// just joined got them from its kubelet, whose configuration names them: they are no news.
func recordDiff(marks kube.Marks, have kube.Node, alone bool) converge.Diff {
	paths := marks.MissingRecord(have)
	f := converge.Field{Want: strings.Join(paths, ", "), Effect: converge.Update, Note: "exists already; owned from now on"}
	switch joined := len(have.OwnedLabels)+len(have.OwnedTaints) == 0; {
	case len(paths) == 0, joined && !alone:
		return nil
	case joined:
		f.Want, f.Note = "joined, with its labels and taints", ""
	case len(paths) > 2:
		f.Want, f.Note = fmt.Sprintf("%d labels and taints", len(paths)), "exist already; owned from now on"
	}
	return converge.Diff{f}
}

// ReadyTime is how long a node may take to become Ready after it has joined.
const ReadyTime = 5 * time.Minute

func (ks *Kubernetes) ObserveNode(ctx context.Context, name string) (*kube.Node, error) {
	client, err := ks.Kube(ctx)
	if err != nil {
		return nil, err
	}
	have, err := client.Node(ctx, name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	return &have, err
}

func (ks *Kubernetes) Marks(n spec.Node) kube.Marks {
	m := kube.Marks{Labels: nodeLabels(ks.Spec, n)}
	for _, t := range n.Taints {
		m.Taints = append(m.Taints, kube.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return m
}

func (ms *Members) SettleNode(ctx context.Context, name string, marks kube.Marks) error {
	client, err := ms.Kube(ctx)
	if err != nil {
		return err
	}
	if err := client.Mark(ctx, name, marks); err != nil {
		return err
	}
	return client.Uncordon(ctx, name)
}

// stayReason is why a node was not drained, or does not go down although it is: it takes pods as before.
type stayReason struct{ error }

func (s stayReason) Unwrap() error { return s.error }

// Drain drains a node and returns its state before that, nil if the cluster does not have
// the node. Once the node takes no more pods, it asks about those that are there.
func (ts *Turns) Drain(ctx context.Context, node string) (*kube.Node, error) {
	was, err := ts.ObserveNode(ctx, node)
	if err != nil || was == nil {
		return nil, err
	}
	client, err := ts.Kube(ctx)
	if err != nil {
		return nil, err
	}
	converge.Progressf(ctx, "draining %s", node)
	return was, client.Drain(ctx, node,
		kube.Drain{DeleteEmptyDir: true, Force: true, Approve: func(ctx context.Context) error { return ts.confirm(ctx, was) }})
}

// DrainFor is Drain for something that cannot be undone, about which it asks again: a drain takes a while.
func (ts *Turns) DrainFor(ctx context.Context, node string) (*kube.Node, error) {
	was, err := ts.Drain(ctx, node)
	if err == nil && was != nil {
		err = ts.confirm(ctx, was)
	}
	return was, err
}

// confirm asks again whether a step may do what a node is cordoned for. If not, the node takes pods
// as before.
func (ts *Turns) confirm(ctx context.Context, was *kube.Node) error {
	no := converge.Confirm(ctx)
	if no == nil || ctx.Err() != nil {
		return no
	}
	if !was.Cordoned {
		client, err := ts.Kube(ctx)
		if err == nil {
			err = client.Uncordon(ctx, was.Name)
		}
		if err != nil {
			return errors.Join(no, err)
		}
	}
	return stayReason{no}
}

// forget removes a server from etcd, if that does not follow from the deletion of its Node.
func (ks *Kubernetes) forget(ctx context.Context, node string) error {
	if f, ok := ks.Distribution.(distribution.Forgetter); ok {
		return f.Forget(ctx, node)
	}
	return nil
}

// DeleteNode deletes a Node, and waits until it is gone: K3s holds the Node of a server back with
// a finalizer until it has removed the etcd member (registerMemberHandlers,
// pkg/etcd/member_controller.go of release-1.34). Of two servers, the machine of one must not go
// before that. The last member cannot be removed.
func (ts *Turns) DeleteNode(ctx context.Context, node string) error {
	client, err := ts.Kube(ctx)
	if err != nil {
		return err
	}
	if err := client.DeleteNode(ctx, node); err != nil {
		return err
	}
	if err := ts.forget(ctx, node); err != nil {
		return err
	}
	if n, ours := ts.Spec.Node(node); ours && ts.isOnlyServer(n) {
		return nil
	}
	rule := converge.WaitRule{
		What: "deleting the Node " + node, Limit: forgetTime, TimeoutText: "the Node " + node + " is not gone",
		Hint: fmt.Sprintf("kubectl get node %s -o yaml shows its finalizers; %s removes its own once etcd has let the server go, for which more than half of the servers must run", printable.Word(node), ts.title()),
	}
	return run.Until(ctx, ts.Spec, rule, func(ctx context.Context) (string, error) {
		switch _, err := client.Node(ctx, node); {
		case errors.Is(err, kube.ErrNotFound):
			return "", nil
		case err != nil:
			return "", err
		}
		return ts.title() + " has not removed its etcd member yet", nil
	})
}

// waitRegistered waits until a kubelet has registered. A kubelet registers only when it
// starts, so if its Node does not appear, it is restarted: someone may have deleted the Node.
func (ms *Members) waitRegistered(ctx context.Context, n spec.Node) error {
	facts := ms.Distribution.Facts()
	unit := facts.Service(n.Role)
	err := ms.awaitNode(ctx, n, converge.WaitRule{Limit: registerTime})
	if err == nil || ctx.Err() != nil {
		return err
	}
	done, err := ms.turnWhenHealthy(ctx, n, ms.serversAway)
	if err != nil {
		return err
	}
	defer done()
	converge.Progressf(ctx, "restarting %s on %s: its Node is gone", unit, n.Name)
	again := converge.WaitRule{
		Limit: ReadyTime, TimeoutText: n.Name + " did not register with the cluster, although " + facts.Title + " was restarted,",
		Hint: fmt.Sprintf("journalctl -u %s there says why; homelab node:replace -node=%s recreates the machine", printable.Word(unit), printable.Word(n.Name)),
	}
	if n.Role == spec.Agent {
		return ms.whileAdmitted(ctx, n, func(ctx context.Context, a distribution.Admission) error {
			if err := ms.Distribution.Restart(ctx, n, a); err != nil {
				return err
			}
			return ms.awaitNode(ctx, n, again)
		})
	}
	if err := ms.Distribution.Restart(ctx, n, distribution.Admission{}); err != nil {
		return err
	}
	return ms.awaitNode(ctx, n, again)
}

// registerTime is how long a kubelet may take to register after it starts.
const registerTime = time.Minute

// awaitNode waits until the cluster has a node.
func (ms *Members) awaitNode(ctx context.Context, n spec.Node, r converge.WaitRule) error {
	r.What = "waiting for " + n.Name + " to register"
	return run.Until(ctx, ms.Spec, r, func(ctx context.Context) (string, error) {
		have, err := ms.ObserveNode(ctx, n.Name)
		if err != nil || have != nil {
			return "", err
		}
		return "the cluster has no such node", nil
	})
}
