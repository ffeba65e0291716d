package rescue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
)

// Source is the snapshot to restore.
type Source struct {
	distribution.SavedSnapshot
	Key     secret.Value // decrypts it
	Made    string       // when, for messages
	Version string       // that it is of; empty: the present one
	Of      string       // its distribution, as the cluster's file names it; empty: the present one
	// Open reads the snapshot; it is called once for every attempt.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Restore brings the cluster back to a snapshot: it stops Kubernetes on all servers, makes etcd of
// the snapshot on the first one, lets the other servers join that, and then the agents come
// back. It can be interrupted anywhere; then it has to be repeated, and until then it starts
// on no server where it was stopped.
func (r *Rescue) Restore(from Source) (*converge.Graph, error) {
	if is := r.Distribution.Facts().Step; from.Of != "" && from.Of != is {
		return nil, fmt.Errorf("the backup is of a cluster with distribution: %s, and the file says %s: one cannot read the other's; take the file that the backup was made with", from.Of, is)
	}
	if title := r.title(); r.Distribution.Compare(from.Version, r.Spec.K3s.Version) > 0 {
		return nil, fmt.Errorf("the snapshot is of %s %s, and the file says %s: an older %s cannot read it; write version: %s under %s:, and run cluster:up first",
			title, from.Version, r.Spec.K3s.Version, title, from.Version, r.Distribution.Facts().Step)
	}
	if c, ok := r.Distribution.(distribution.KeyChecker); ok {
		if err := c.CheckKey(from.Key); err != nil {
			return nil, err
		}
	}
	g := r.Members.Graph()
	servers, agents := r.Spec.Servers(), r.Spec.Agents()
	stopped := make([]*converge.Ref, len(servers))
	for i, n := range servers {
		stopped[i] = g.Add(r.stopStep(n, from, i == 0))
	}
	last := g.Add(r.restoreStep(servers[0], from), stopped...)
	for _, n := range servers[1:] {
		last = g.Add(r.joinStep(n), last)
	}
	for _, n := range agents { // each restarts on its own; pods keep running
		g.Add(r.agentStep(n), last)
	}
	g.Add(r.Members.KubeconfigStep(), last)
	return g, nil
}

// oneTimeStep is a step of a restore: nothing in the world tells a restored cluster from another.
func oneTimeStep(id, have, want string, effect converge.Effect, act func(context.Context) error) *converge.Resource[struct{}] {
	return &converge.Resource[struct{}]{
		ID:      id,
		Observe: func(context.Context) (struct{}, error) { return struct{}{}, nil },
		Diff:    func(struct{}) converge.Diff { return converge.Diff{{Have: have, Want: want, Effect: effect}} },
		Apply:   func(ctx context.Context, _ struct{}) error { return act(ctx) },
		Once:    true,
	}
}

// Away is how long the API is away during a restore, as measured on simulated servers with the
// times of real ones.
const apiDowntime = "1 to 5 min"

// wipeDowntime is that of machines that restart twice, and fetch images again. It is not measured.
const wipeDowntime = "5 to 20 min"

func (r *Rescue) stopStep(n spec.Node, from Source, first bool) *converge.Resource[struct{}] {
	step := oneTimeStep("stop/"+n.Name, "runs", "stopped", converge.Restart, func(ctx context.Context) error {
		have, err := members.Answer(ctx, r.Members.Kubernetes, n, upTime)
		if err != nil {
			return err
		}
		if version := have.State().Version; version != r.Spec.K3s.Version {
			return converge.Permanent(fmt.Errorf("%s has %s %q, and the file says %s: run cluster:up first, which installs it", n.Name, r.title(), version, r.Spec.K3s.Version))
		}
		return r.Distribution.Stop(ctx, n.Name, from.Name)
	})
	return &converge.Resource[struct{}]{ID: step.ID, Observe: step.Observe, Diff: step.Diff, Apply: step.Apply, Costs: r.costsOfRestore(n, from, first), Once: true}
}

// costsOfRestore is what a restore ends: the state of the cluster, once, and Kubernetes on each
// server for a while.
func (r *Rescue) costsOfRestore(n spec.Node, from Source, first bool) func(context.Context, struct{}, converge.Diff) []converge.Cost {
	return func(context.Context, struct{}, converge.Diff) []converge.Cost {
		costs := []converge.Cost{{Machine: r.title() + " on " + n.Name, Kind: converge.CostStop, Reason: "pods keep running", Downtime: apiDowntime}}
		if r.Distribution.Facts().Wipes {
			costs = []converge.Cost{{Machine: "the own disk of " + n.Name, Kind: converge.CostDestroy, Reason: "it is wiped and restarts: its pods end, and what they keep there is lost"},
				{Machine: r.title() + " on " + n.Name, Kind: converge.CostStop, Reason: "the machine restarts", Downtime: wipeDowntime}}
		}
		if first {
			costs = append([]converge.Cost{{Machine: "the present state of " + r.Spec.Name, Kind: converge.CostDestroy,
				Reason: "Kubernetes goes back to " + from.Made + ": what was created or changed since is lost"}}, costs...)
		}
		return costs
	}
}

// restoreStep makes etcd of the snapshot on the first server, and starts that.
func (r *Rescue) restoreStep(n spec.Node, from Source) *converge.Resource[struct{}] {
	return oneTimeStep("restore/"+n.Name, "stopped", from.Name, converge.Create, func(ctx context.Context) error {
		server, wish, err := r.server(ctx, n, false)
		if err != nil {
			return err
		}
		if err := r.Distribution.Stop(ctx, n.Name, from.Name); err != nil { // a second attempt begins again
			return err
		}
		snapshot, err := from.Open(ctx)
		if err != nil {
			return err
		}
		err = server.Restore(ctx, wish, from.SavedSnapshot, from.Key, snapshot)
		if err = errors.Join(err, snapshot.Close()); err != nil {
			if errors.Is(err, distribution.ErrKey) {
				return converge.Permanent(err)
			}
			return err
		}
		if err := server.Start(ctx, wish, distribution.Admission{}); err != nil {
			return err
		}
		if err := r.waitUp(ctx, n); err != nil {
			return err
		}
		r.Members.SetClient(nil, "") // the authority may be another one now
		if err := r.Members.APIBack(ctx, members.APITime); err != nil {
			return err
		}
		return r.Distribution.Finish(ctx, n.Name)
	})
}

// server is a server as it is, and what it should be: the node that it was.
func (r *Rescue) server(ctx context.Context, n spec.Node, joins bool) (distribution.Member, distribution.Wish, error) {
	have, err := members.Answer(ctx, r.Members.Kubernetes, n, upTime)
	if err != nil {
		return nil, distribution.Wish{}, err
	}
	id, err := r.Members.ProviderID(ctx, n, have.State())
	return have, r.Members.Wish(n, id, joins), err
}

// joinStep lets a server join the restored one.
func (r *Rescue) joinStep(n spec.Node) *converge.Resource[struct{}] {
	return oneTimeStep("join/"+n.Name, "stopped", "a member again", converge.Create, func(ctx context.Context) error {
		first := r.Spec.Servers()[0].Name
		server, wish, err := r.server(ctx, n, true)
		if err != nil {
			return err
		}
		if err := r.Distribution.Stop(ctx, n.Name, distribution.RestoredBy(first)); err != nil {
			return err
		}
		admission, err := r.Distribution.Admit(ctx, first, n, upTime)
		if err != nil {
			return err
		}
		if err := server.Start(ctx, wish, admission); err != nil {
			return err
		}
		if err := r.waitUp(ctx, n); err != nil {
			return err
		}
		return r.Distribution.Finish(ctx, n.Name)
	})
}

// agentStep restarts an agent: its server has another state, and may have another
// authority. A machine that has not joined is left to cluster:up.
func (r *Rescue) agentStep(n spec.Node) *converge.Resource[struct{}] {
	return oneTimeStep("agent/"+n.Name, "of the cluster as it was", "back", converge.Restart, func(ctx context.Context) error {
		have, err := members.Answer(ctx, r.Members.Kubernetes, n, upTime)
		if err != nil {
			return err
		}
		if have.State().Role != spec.Agent {
			converge.Progressf(ctx, "%s has not joined yet; cluster:up lets it join", n.Name)
			return nil
		}
		if err := r.Distribution.Readmit(ctx, r.Spec.Servers()[0].Name, n); err != nil {
			return err
		}
		return r.waitUp(ctx, n)
	})
}

// upTime is how long a member may take to be up again.
const upTime = 10 * time.Minute

// waitUp waits until a member runs. The snapshot may know an earlier machine of this
// name; the cluster forgets it with the Node, which this one registers again.
func (r *Rescue) waitUp(ctx context.Context, n spec.Node) error {
	forgotten := false
	facts := r.Distribution.Facts()
	rule := converge.WaitRule{What: "waiting for " + facts.Step + " on " + n.Name, Limit: upTime, TimeoutText: facts.Title + " on " + n.Name + " did not start"}
	return run.Until(ctx, r.Spec, rule, func(ctx context.Context) (string, error) {
		member, err := r.Distribution.Observe(ctx, n)
		if err != nil {
			return "", err
		}
		have := member.State()
		if have.Running && have.Role == n.Role {
			return "", nil
		}
		switch {
		case errors.Is(have.Stuck, distribution.ErrName) && !forgotten && n.Name != r.Spec.Servers()[0].Name:
			if err := r.deleteOldNode(ctx, n); err != nil {
				return "", err
			}
			forgotten = true
			return "its Node of the snapshot was that of another machine, and was deleted", nil
		case have.Stuck != nil && !forgotten:
			return "", converge.Permanent(have.Stuck)
		}
		return facts.Title + " is " + have.Waits, nil
	})
}

// deleteOldNode deletes the Node of an earlier machine, unless it is Ready.
func (r *Rescue) deleteOldNode(ctx context.Context, n spec.Node) error {
	client, err := r.Members.Kube(ctx)
	if err != nil {
		return err
	}
	converge.Progressf(ctx, "deleting the Node of an earlier %s", n.Name)
	return client.DeleteNode(ctx, n.Name)
}
