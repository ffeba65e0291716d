package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
)

// rollTime is how long one server may take to be drained, upgraded and back.
const rollTime = 10 * time.Minute

// serversFirst waits until every server runs the version that the file asks for: a
// kubelet must not be newer than any API server that it speaks to (Kubernetes'
// version skew policy).
func (c *Cluster) serversFirst(ctx context.Context) error {
	servers := c.spec.Servers()
	ctx, cancel := c.within(ctx, time.Duration(len(servers))*rollTime, "not all servers were upgraded")
	defer cancel()
	return patiently(ctx, "the servers are upgraded before agents", func() (string, error) {
		client, err := c.kube(ctx)
		if err != nil {
			return "", err
		}
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return "", err
		}
		var old []string
		for _, n := range nodes {
			if spec, ours := c.spec.Node(n.Name); ours && spec.Role == Server && n.Version != c.spec.K3s.Version {
				old = append(old, fmt.Sprintf("%s runs %s", n.Name, n.Version))
			}
		}
		return strings.Join(old, ", "), nil
	})
}

// apiBack waits until the API can be reached anew: where a server that had its
// address was down, another one takes it over first. It answers that it is ready
// when its member of etcd is.
func (c *Cluster) apiBack(ctx context.Context) error {
	ctx, cancel := c.within(ctx, apiTime, "the API did not answer")
	defer cancel()
	return patiently(ctx, "the API is to answer again", func() (string, error) {
		if problem, err := c.dialAPI(ctx); problem != "" || err != nil {
			return problem, err
		}
		client, err := c.kube(ctx)
		if err != nil {
			return "", err
		}
		return "", client.Reachable(ctx)
	})
}

// patiently looks until there is no problem any more. What it waits for is in what,
// and what the last look found is in the error.
func patiently(ctx context.Context, what string, look func() (problem string, err error)) error {
	last := ""
	for {
		problem, err := look()
		switch {
		case err == nil && problem == "":
			return nil
		case err == nil:
			last = problem
		case ctx.Err() == nil || last == "": // else the look was cut short, and says nothing
			last = firstLine(err.Error())
		}
		progress.Say(ctx, "%s: %s", what, last)
		if pause(ctx, 2*time.Second) != nil {
			return fmt.Errorf("%s: %s: %w", what, last, context.Cause(ctx))
		}
	}
}

// pause waits between two looks. It returns why ctx has ended, if it has.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
