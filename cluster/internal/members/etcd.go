package members

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// etcdTime is how long etcd's members may take to be well after a server has restarted. K3s
// looks at them every 15 seconds.
const etcdTime = 3 * time.Minute

// etcdSick says which servers have no working etcd member, "" if all do. The condition of the
// Nodes is what etcd's leader sees; the API server on each machine says whether it reaches its
// own member.
func (ms *Members) etcdSick(ctx context.Context) (string, error) {
	nodes, err := ms.apiNodes(ctx)
	if err != nil {
		return "", err
	}
	reported := false
	for _, n := range nodes {
		reported = reported || n.Voter != ""
	}
	var out []string
	for _, n := range nodes {
		if n.Role != string(spec.Server) {
			continue
		}
		switch {
		case !n.Ready:
			out = append(out, n.Name+": "+n.Reason)
		case n.Voter == "" && reported:
			out = append(out, n.Name+": "+ms.title()+" has not reported its etcd member yet")
		case n.Voter != "" && n.Voter != "True":
			out = append(out, n.Name+": its etcd member is not well: "+n.VoterReason)
		default:
			if _, ours := ms.Spec.Node(n.Name); !ours {
				continue
			}
			if why := ms.unwell(ctx, n.Name); why != "" {
				out = append(out, n.Name+": "+why)
			}
		}
	}
	return strings.Join(out, ", "), nil
}

// apiNodes returns Kubernetes' nodes; none if there is no cluster yet.
func (ms *Members) apiNodes(ctx context.Context) ([]kube.Node, error) {
	client, err := ms.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return client.Nodes(ctx)
}

// unwell says why the API server on a server's machine does not work, "" if it does.
func (ms *Members) unwell(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, run.Limit(ms.Spec, askTime))
	defer cancel()
	return ms.Distribution.Unwell(ctx, server)
}

// waitEtcd waits until every etcd member is well.
func (ms *Members) waitEtcd(ctx context.Context, n spec.Node) error {
	rule := converge.WaitRule{What: "waiting for etcd", Limit: etcdTime, TimeoutText: "etcd is not well after the upgrade of " + n.Name}
	return run.Until(ctx, ms.Spec, rule, ms.etcdSick)
}
