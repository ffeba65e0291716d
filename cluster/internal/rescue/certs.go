package rescue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// Certificates are those of Kubernetes on one machine.
type Certificates struct {
	Node string
	Role string
	All  []distribution.Certificate // the first to end first
	Err  error                      // why they could not be read
}

// Certs reads the certificates of all nodes. One that does not answer has an error.
func (r *Rescue) Certs(ctx context.Context) []Certificates {
	var out []Certificates
	for _, n := range r.Spec.Nodes {
		if n.Role == spec.Server || n.Role == spec.Agent {
			out = append(out, Certificates{Node: n.Name, Role: string(n.Role)})
		}
	}
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			out[i].All, out[i].Err = r.Distribution.Certificates(ctx, out[i].Node)
		})
	}
	all.Wait()
	return out
}

// Rotate makes new certificates on one node after the other, servers first. Pods keep running.
func (r *Rescue) Rotate() *converge.Graph {
	g := r.Members.Graph()
	var last []*converge.Ref
	for _, n := range r.Spec.Servers() {
		last = []*converge.Ref{g.Add(r.rotateStep(n), last...)}
	}
	for _, n := range r.Spec.Agents() {
		last = []*converge.Ref{g.Add(r.rotateStep(n), last...)}
	}
	return g
}

// rotateStep is done when all certificates of a node are of this run.
func (r *Rescue) rotateStep(n spec.Node) *converge.Resource[[]distribution.Certificate] {
	began := time.Now().Truncate(time.Second)
	return &converge.Resource[[]distribution.Certificate]{
		ID: "certificates/" + n.Name,
		Observe: func(ctx context.Context) ([]distribution.Certificate, error) {
			if _, err := r.observe(ctx, n); err != nil {
				return nil, err
			}
			return r.Distribution.Certificates(ctx, n.Name)
		},
		Diff: func(all []distribution.Certificate) converge.Diff {
			for _, c := range all {
				if !c.Authority && c.Until.Before(began.AddDate(0, 11, 0)) {
					return converge.Diff{{Have: fmt.Sprintf("%s ends on %s", c.File, c.Until.Format(time.DateOnly)), Want: "a year from now", Effect: converge.Restart}}
				}
			}
			return nil
		},
		Apply: func(ctx context.Context, _ []distribution.Certificate) error {
			return r.Members.RestartMember(ctx, n, func(ctx context.Context) error { return r.Distribution.Rotate(ctx, n) })
		},
		Settle: upTime,
		Poll:   run.PollInterval,
	}
}
