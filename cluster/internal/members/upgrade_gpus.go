package members

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// gpuPoll is how often a node is asked for pods that hold GPUs. Such pods run for hours.
const gpuPoll = 10 * time.Second

// acquireTurnWithGPUs is turnWhenHealthy for a visit. If pods hold GPUs of the node, they first get the time
// of the file to end. The wait is outside of the turn, so that other nodes go on, and the node
// takes new pods meanwhile: to keep several nodes empty at once would stop everybody's work.
// In its turn the node takes no more pods before it is looked at for the last time.
func (ts *Turns) acquireTurnWithGPUs(ctx context.Context, n spec.Node, v maintenance) (done func(), err error) {
	left := ts.Spec.K3s.Upgrade.Wait
	for {
		if v.gpuGrace != "" {
			if left, err = ts.waitGPUs(ctx, n, v.gpuGrace, left); err != nil {
				return nil, err
			}
		}
		if done, err = ts.turnWhenHealthy(ctx, n, v.away); err != nil || v.gpuGrace == "" {
			return done, err
		}
		free, err := ts.cordonIfGPUsFree(ctx, n)
		if err == nil && (free || ts.evicts() && left <= 0) {
			return done, nil
		}
		done()
		if err != nil {
			return nil, err
		}
	}
}

// evicts reports whether the file has pods evicted that hold GPUs when their time is over.
func (ks *Kubernetes) evicts() bool { return ks.Spec.K3s.Upgrade.GPUPods == spec.GPUPodsEvict }

// cordonIfGPUsFree cordons a node whose GPUs no pod holds. If one does, the node stays as it was.
func (ts *Turns) cordonIfGPUsFree(ctx context.Context, n spec.Node) (bool, error) {
	held, err := ts.gpuHolders(ctx, n)
	if err != nil || len(held) > 0 || !n.HasGPUs() {
		return len(held) == 0, err
	}
	was, err := ts.ObserveNode(ctx, n.Name)
	if errors.Is(err, ErrUnformed) || err != nil && ts.isOnlyServer(n) && ctx.Err() == nil {
		return true, nil
	}
	if err != nil || was == nil || was.Cordoned {
		return err == nil, err
	}
	client, err := ts.Kube(ctx)
	if err != nil {
		return false, err
	}
	if err := client.Cordon(ctx, n.Name); err != nil {
		return false, err
	}
	if held, err = ts.gpuHolders(ctx, n); err != nil || len(held) > 0 {
		return false, errors.Join(err, client.Uncordon(ctx, n.Name))
	}
	return true, nil
}

// uncordonAgain lets pods onto a node again that does not go down after all.
func (ts *Turns) uncordonAgain(ctx context.Context, n spec.Node, v maintenance) error {
	if v.gpuGrace == "" || !n.HasGPUs() || ctx.Err() != nil {
		return nil
	}
	return ts.Uncordon(ctx, n.Name)
}

// Uncordon lets pods onto a node again.
func (ks *Kubernetes) Uncordon(ctx context.Context, node string) error {
	client, err := ks.Kube(ctx)
	if err != nil {
		return err
	}
	return client.Uncordon(ctx, node)
}

// waitGPUs waits until no pod holds GPUs of a node, for at most that time, and returns what is
// left of it. Then it is an error, unless the file has such pods evicted. keeps is what the node
// keeps in that case.
func (ts *Turns) waitGPUs(ctx context.Context, n spec.Node, keeps string, limit time.Duration) (left time.Duration, err error) {
	start := time.Now()
	then := fmt.Sprintf("until %s at most, then %s keeps %s", start.Add(limit).Format("Jan 2 15:04"), n.Name, keeps)
	if ts.evicts() {
		then = fmt.Sprintf("until %s at most, then they are evicted", start.Add(limit).Format("Jan 2 15:04"))
	}
	held, err := ts.gpuHolders(ctx, n)
	if err != nil || len(held) == 0 {
		return limit, err
	}
	if limit > 0 {
		rule := converge.WaitRule{What: n.Name + " waits for pods that hold GPUs", Limit: limit, Poll: gpuPoll}
		err = converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
			now, err := ts.gpuHolders(ctx, n)
			if err == nil {
				held = now
			}
			if len(now) == 0 {
				return "", err
			}
			return strings.Join(now, ", ") + "; " + then, err
		})
		var over *converge.WaitError
		switch {
		case err == nil:
			return limit - time.Since(start), nil
		case ctx.Err() != nil || !errors.As(err, &over) || over.Err != nil:
			return 0, err
		}
	}
	if ts.evicts() {
		converge.Progressf(ctx, "evicting the pods that hold GPUs of %s, as %s says: %s", n.Name, ts.Spec.KubernetesKey("upgrade"), strings.Join(held, ", "))
		return 0, nil
	}
	command := "cluster:up"
	if keeps == nodePackages {
		command = "node:upgrade"
	}
	return 0, converge.Permanent(&StaysError{fmt.Sprintf("%s keeps %s, because pods hold its GPUs after %s: %s\n  wait until they end, or ask their owners, then run homelab %s again; "+
		"%s: {gpuPods: evict} in cluster.yaml has them evicted instead", n.Name, keeps, durationText(ts.Spec.K3s.Upgrade.Wait),
		strings.Join(held, ", "), command, ts.Spec.KubernetesKey("upgrade"))})
}

// StaysError says that a node was not upgraded, because pods hold its GPUs.
type StaysError struct{ words string }

func (e *StaysError) Error() string { return e.words }

// gpuHolders names the pods that hold GPUs of a node and that a drain would evict. It names none
// if there is no cluster yet, or if the only server's API does not answer.
func (ts *Turns) gpuHolders(ctx context.Context, n spec.Node) (out []string, err error) {
	if !n.HasGPUs() {
		return nil, nil
	}
	client, err := ts.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return nil, nil
	}
	if err == nil {
		pods, failed := client.NodePods(ctx, n.Name)
		out, err = workload.HoldGPUs(pods), failed
	}
	if err != nil && ts.isOnlyServer(n) && ctx.Err() == nil {
		return nil, nil
	}
	return out, err
}

// gpuTime says in a plan what happens to pods that hold GPUs.
func (ts *Turns) gpuTime(n spec.Node) string {
	policy := ts.Spec.K3s.Upgrade
	switch {
	case !n.HasGPUs():
		return ""
	case ts.evicts() && policy.Wait == 0:
		return "; pods that hold GPUs are evicted"
	case ts.evicts():
		return fmt.Sprintf("; pods that hold GPUs are evicted after %s", durationText(policy.Wait))
	case policy.Wait == 0:
		return "; not while pods hold its GPUs"
	}
	return fmt.Sprintf("; waits up to %s for pods that hold GPUs, and does not end them", durationText(policy.Wait))
}

// durationText is a duration as a person writes it: 1h, not 1h0m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
