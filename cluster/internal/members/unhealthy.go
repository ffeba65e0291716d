package members

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
)

// othersUnhealthy names, for a healthy agent, every other node of the file that is not Ready or
// is cordoned: a change that breaks nodes must break only one, no matter how often it is
// retried.
func (ks *Kubernetes) othersUnhealthy(ctx context.Context, n spec.Node) (string, error) {
	if n.Role != spec.Agent {
		return ks.serversAway(ctx, n)
	}
	return ks.UnhealthyExcept(ctx, ks.IsUnhealthy, n.Name)
}

// IsUnhealthy reports whether a node of the file is not Ready, or is cordoned.
func (ks *Kubernetes) IsUnhealthy(n kube.Node) bool {
	_, ours := ks.Spec.Node(n.Name)
	return ours && (!n.Ready || n.Cordoned)
}

// serversAway names, for a server, the other servers of the cluster that are not Ready: etcd
// keeps its quorum with one member down, but not with two.
func (ks *Kubernetes) serversAway(ctx context.Context, n spec.Node) (string, error) {
	if n.Role != spec.Server || ks.isOnlyServer(n) {
		return "", nil
	}
	return ks.UnhealthyExcept(ctx, func(other kube.Node) bool {
		return other.Name != n.Name && other.Role == string(spec.Server) && !other.Ready
	})
}

// UnhealthyExcept lists the nodes for which is returns true, except those in going. It lists none if is
// is true for every node in going, or if the cluster knows none of them: taking them down then
// makes nothing worse.
func (ks *Kubernetes) UnhealthyExcept(ctx context.Context, is func(kube.Node) bool, going ...string) (string, error) {
	client, err := ks.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return "", err
	}
	var out []string
	missed := len(going) == 0
	for _, n := range nodes {
		switch {
		case slices.Contains(going, n.Name):
			missed = missed || !is(n)
		case !is(n):
		case n.Ready:
			out = append(out, n.Name+": cordoned")
		default:
			out = append(out, n.Name+": "+n.Reason)
		}
	}
	if !missed {
		return "", nil
	}
	return strings.Join(out, ", "), nil
}

// isOnlyServer reports whether a node is the only server.
func (ks *Kubernetes) isOnlyServer(n spec.Node) bool {
	return n.Role == spec.Server && len(ks.Spec.Servers()) == 1
}

// unhealthyFunc names the nodes that are down and must be up before a node goes down, "" for none.
type unhealthyFunc = func(ctx context.Context, n spec.Node) (others string, err error)
