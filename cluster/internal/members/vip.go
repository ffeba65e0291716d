package members

import (
	"context"
	"net"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
)

// VIPStep waits until the virtual address answers: no node joins before that.
func (ks *Kubernetes) VIPStep() *converge.Resource[string] {
	addr := net.JoinHostPort(ks.Spec.APIAddress().String(), distribution.APIPort)
	return &converge.Resource[string]{
		ID:      "api/" + ks.Spec.APIAddress().String(),
		Observe: ks.dialAPI,
		Diff: func(problem string) converge.Diff {
			if problem == "" {
				return nil
			}
			return converge.Diff{{Have: problem, Want: "the API answers at " + addr, Effect: converge.Create}}
		},
		Settle: APITime,
	}
}

// APITime is how long the virtual address may be without a holder.
const APITime = 3 * time.Minute

// apiKnock is how long the API may take to accept a connection. On a slow host its address
// moves now and then, perhaps just when a check starts.
const apiKnock = 5 * time.Second

// dialAPI returns why the API is unreachable, "" if it is reachable.
func (ks *Kubernetes) dialAPI(ctx context.Context) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, run.Limit(ks.Spec, apiKnock))
	defer cancel()
	conn, err := ks.Nodes.DialTo(ctx, "tcp", net.JoinHostPort(ks.Spec.APIAddress().String(), distribution.APIPort))
	if err != nil {
		return printable.FirstLine(err.Error()), nil
	}
	return "", conn.Close()
}
