package cluster

import (
	"context"
	"net"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/printable"
)

// vipStep waits until the virtual address answers: nobody joins before.
func (c *Cluster) vipStep() *converge.Resource[string] {
	addr := net.JoinHostPort(c.spec.APIAddress().String(), apiPort)
	return &converge.Resource[string]{
		ID:      "api/" + c.spec.APIAddress().String(),
		Observe: c.dialAPI,
		Diff: func(problem string) drift.Diff {
			if problem == "" {
				return nil
			}
			return drift.Diff{{Have: problem, Want: "the API answers at " + addr, Effect: drift.Create}}
		},
		Settle: apiTime,
	}
}

// apiTime is how long the virtual address may have no holder.
const apiTime = 3 * time.Minute

// apiKnock is how long the API may take to accept a connection. On a slow host its
// address changes hands now and then, and a look begins just then.
const apiKnock = 5 * time.Second

// dialAPI says why the API cannot be reached, "" when it can.
func (c *Cluster) dialAPI(ctx context.Context) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, run.Limit(c.spec, apiKnock))
	defer cancel()
	conn, err := c.nodes.DialTo(ctx, "tcp", net.JoinHostPort(c.spec.APIAddress().String(), apiPort))
	if err != nil {
		return printable.FirstLine(err.Error()), nil
	}
	return "", conn.Close()
}
