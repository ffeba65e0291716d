package rescue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/secret"
)

// Source is the snapshot to restore.
type Source struct {
	k3s.Restore
	Made string // when, for messages
	K3s  string // the version that it is of; empty: the present one
	// Open reads the snapshot; it is called once for every attempt.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Restore brings the cluster back to a snapshot: it stops K3s on all servers, makes etcd of
// the snapshot on the first one, lets the other servers join that, and then the agents come
// back. It can be interrupted anywhere; then it has to be repeated, and until then K3s starts
// on no server where it was stopped.
func (r *Rescue) Restore(from Source) (*converge.Graph, error) {
	if k3s.CompareVersions(from.K3s, r.Spec.K3s.Version) > 0 {
		return nil, fmt.Errorf("the snapshot is of K3s %s, and the file says %s: an older K3s cannot read it; write version: %s under k3s:, and run cluster:up first",
			from.K3s, r.Spec.K3s.Version, from.K3s)
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

func (r *Rescue) stopStep(n spec.Node, from Source, first bool) *converge.Resource[struct{}] {
	step := oneTimeStep("stop/"+n.Name, "runs", "stopped", converge.Restart, func(ctx context.Context) error {
		have, err := r.observe(ctx, n)
		if err != nil {
			return err
		}
		if have.Version != r.Spec.K3s.Version {
			return converge.Permanent(fmt.Errorf("%s has K3s %q, and the file says %s: run cluster:up first, which installs it", n.Name, have.Version, r.Spec.K3s.Version))
		}
		return k3s.StopForRestore(ctx, r.Nodes.Root(n.Name), from.Name)
	})
	return &converge.Resource[struct{}]{ID: step.ID, Observe: step.Observe, Diff: step.Diff, Apply: step.Apply, Costs: r.costsOfRestore(n, from, first), Once: true}
}

// costsOfRestore is what a restore ends: the state of the cluster, once, and K3s on each
// server for a while.
func (r *Rescue) costsOfRestore(n spec.Node, from Source, first bool) func(context.Context, struct{}, converge.Diff) []converge.Cost {
	return func(context.Context, struct{}, converge.Diff) []converge.Cost {
		costs := []converge.Cost{{Machine: "K3s on " + n.Name, Kind: converge.CostStop, Reason: "pods keep running", Downtime: apiDowntime}}
		if first {
			costs = append([]converge.Cost{{Machine: "the present state of " + r.Spec.Name, Kind: converge.CostDestroy,
				Reason: "Kubernetes goes back to " + from.Made + ": what was created or changed since is lost"}}, costs...)
		}
		return costs
	}
}

// restoreStep makes etcd of the snapshot on the first server, and starts K3s there.
func (r *Rescue) restoreStep(n spec.Node, from Source) *converge.Resource[struct{}] {
	return oneTimeStep("restore/"+n.Name, "stopped", from.Name, converge.Create, func(ctx context.Context) error {
		root := r.Nodes.Root(n.Name)
		srv, err := r.server(ctx, n, false)
		if err != nil {
			return err
		}
		if err := k3s.StopForRestore(ctx, root, from.Name); err != nil { // a second attempt begins again
			return err
		}
		snapshot, err := from.Open(ctx)
		if err != nil {
			return err
		}
		err = k3s.RestoreServer(ctx, root, srv, from.Restore, snapshot)
		if err = errors.Join(err, snapshot.Close()); err != nil {
			if errors.Is(err, k3s.ErrRestoreToken) {
				return converge.Permanent(err)
			}
			return err
		}
		if err := k3s.StartServer(ctx, root, srv); err != nil {
			return err
		}
		if err := r.waitUp(ctx, n, k3s.RoleServer); err != nil {
			return err
		}
		r.Members.SetClient(nil, "") // the authority may be another one now
		if err := r.Members.APIBack(ctx, members.APITime); err != nil {
			return err
		}
		return k3s.FinishRestore(ctx, root)
	})
}

// server is the wanted state of a server, which stays the node that it is.
func (r *Rescue) server(ctx context.Context, n spec.Node, joins bool) (k3s.Server, error) {
	have, err := r.observe(ctx, n)
	if err != nil {
		return k3s.Server{}, err
	}
	id, err := r.Members.ProviderID(ctx, n, have)
	if err != nil {
		return k3s.Server{}, err
	}
	return r.Members.Server(n, id, joins)
}

// joinStep lets a server join the restored one.
func (r *Rescue) joinStep(n spec.Node) *converge.Resource[struct{}] {
	return oneTimeStep("join/"+n.Name, "stopped", "a member again", converge.Create, func(ctx context.Context) error {
		root := r.Nodes.Root(n.Name)
		srv, err := r.server(ctx, n, true)
		if err != nil {
			return err
		}
		if err := k3s.StopForRestore(ctx, root, "the cluster of "+r.Spec.Servers()[0].Name); err != nil {
			return err
		}
		if srv.Token, err = r.token(ctx, k3s.Token); err != nil {
			return err
		}
		if err := k3s.JoinServer(ctx, root, srv); err != nil {
			return err
		}
		if err := r.waitUp(ctx, n, k3s.RoleServer); err != nil {
			return err
		}
		return k3s.FinishRestore(ctx, root)
	})
}

// agentStep restarts K3s on an agent: its server has another state, and may have another
// authority. A machine without K3s is left to cluster:up.
func (r *Rescue) agentStep(n spec.Node) *converge.Resource[struct{}] {
	return oneTimeStep("agent/"+n.Name, "of the cluster as it was", "back", converge.Restart, func(ctx context.Context) error {
		root := r.Nodes.Root(n.Name)
		have, err := r.observe(ctx, n)
		if err != nil {
			return err
		}
		if have.Role != k3s.RoleAgent {
			converge.Progressf(ctx, "%s has not joined yet; cluster:up lets it join", n.Name)
			return nil
		}
		token, err := r.token(ctx, k3s.AgentToken)
		if err != nil {
			return err
		}
		if err := k3s.UseToken(ctx, root, token); err != nil {
			return err
		}
		return r.waitUp(ctx, n, k3s.RoleAgent)
	})
}

// token reads a token from the server that was restored.
func (r *Rescue) token(ctx context.Context, read members.TokenReader) (secret.Value, error) {
	return read(ctx, r.Nodes.Root(r.Spec.Servers()[0].Name))
}

// upTime is how long K3s may take to be up again.
const upTime = 10 * time.Minute

// waitUp waits until K3s runs. The snapshot may have the password of an earlier machine of this
// name; K3s forgets it with the Node, which this one registers again.
func (r *Rescue) waitUp(ctx context.Context, n spec.Node, role k3s.Role) error {
	forgotten := false
	rule := converge.WaitRule{What: "waiting for k3s on " + n.Name, Limit: upTime, TimeoutText: "K3s on " + n.Name + " did not start"}
	return run.Until(ctx, r.Spec, rule, func(ctx context.Context) (string, error) {
		have, err := k3s.Observe(ctx, r.Nodes.Root(n.Name))
		if err != nil {
			return "", err
		}
		if have.Running() && have.Role == role {
			return "", nil
		}
		d, ok := have.Diagnosis()
		switch {
		case ok && d.NodePassword() && !forgotten && n.Name != r.Spec.Servers()[0].Name:
			if err := r.deleteOldNode(ctx, n); err != nil {
				return "", err
			}
			forgotten = true
			return "its Node of the snapshot was that of another machine, and was deleted", nil
		case ok && d.Fatal && !forgotten:
			return "", converge.Permanent(&k3s.StartError{Role: role, Diagnosis: d})
		}
		return strings.TrimSuffix("K3s is "+have.Active+": "+have.Reason(), ": "), nil
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
