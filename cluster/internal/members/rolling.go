package members

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// rollTime is how long it may take to drain and upgrade one server until it is back.
const rollTime = 10 * time.Minute

// serversFirst waits until every server runs the version of the file: a kubelet must not be
// newer than any API server that it talks to (Kubernetes' version skew policy).
func (ts *Turns) serversFirst(ctx context.Context) error {
	servers := ts.Spec.Servers()
	rule := converge.WaitRule{
		What: "waiting until the servers are upgraded", Limit: time.Duration(len(servers)) * rollTime,
		TimeoutText: "not all servers were upgraded",
	}
	return run.Until(ctx, ts.Spec, rule, func(ctx context.Context) (string, error) {
		client, err := ts.Kube(ctx)
		if err != nil {
			return "", err
		}
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return "", err
		}
		var old []string
		for _, n := range nodes {
			if wanted, ours := ts.Spec.Node(n.Name); ours && wanted.Role == spec.Server && ts.Distribution.Compare(n.Version, ts.Spec.K3s.Version) < 0 {
				old = append(old, fmt.Sprintf("%s runs %s", n.Name, n.Version))
			}
		}
		return strings.Join(old, ", "), nil
	})
}

// APIBack waits until the API answers again. If the server that had the API's address was
// down, another server takes the address over first. The API reports ready when its etcd
// member is ready.
func (ks *Kubernetes) APIBack(ctx context.Context, limit time.Duration) error {
	rule := converge.WaitRule{What: "waiting for the API to answer again", Limit: limit, TimeoutText: "the API did not answer"}
	return run.Until(ctx, ks.Spec, rule, func(ctx context.Context) (string, error) {
		if problem, err := ks.dialAPI(ctx); problem != "" || err != nil {
			return problem, err
		}
		client, err := ks.Kube(ctx)
		if err != nil {
			return "", err
		}
		return "", client.CheckReachable(ctx)
	})
}
