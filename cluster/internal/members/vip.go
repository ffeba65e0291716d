package members

import (
	"context"
	"net"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/printable"
)

// VIPStep waits until the virtual address answers: nobody joins before.
func (ms *Members) VIPStep() *converge.Resource[string] {
	addr := net.JoinHostPort(ms.Spec.APIAddress().String(), apiPort)
	return &converge.Resource[string]{
		ID:      "api/" + ms.Spec.APIAddress().String(),
		Observe: ms.dialAPI,
		Diff: func(problem string) drift.Diff {
			if problem == "" {
				return nil
			}
			return drift.Diff{{Have: problem, Want: "the API answers at " + addr, Effect: drift.Create}}
		},
		Settle: APITime,
	}
}

// APITime is how long the virtual address may have no holder.
const APITime = 3 * time.Minute

// apiKnock is how long the API may take to accept a connection. On a slow host its
// address changes hands now and then, and a look begins just then.
const apiKnock = 5 * time.Second

// dialAPI says why the API cannot be reached, "" when it can.
func (ms *Members) dialAPI(ctx context.Context) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, run.Limit(ms.Spec, apiKnock))
	defer cancel()
	conn, err := ms.Nodes.DialTo(ctx, "tcp", net.JoinHostPort(ms.Spec.APIAddress().String(), apiPort))
	if err != nil {
		return printable.FirstLine(err.Error()), nil
	}
	return "", conn.Close()
}
