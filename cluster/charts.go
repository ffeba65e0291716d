package cluster

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/kube/chart"
)

// pieces are the parts of the platform; none where they could not be made, which
// chartsStep says.
func (c *Cluster) pieces() []platform.Piece {
	pieces, _ := c.platformParts()
	return pieces
}

// Part is a part of the platform, for people.
type Part struct {
	Name      string `json:"name"`
	Via       string `json:"via"`
	Chart     string `json:"chart,omitempty"` // name and version
	Namespace string `json:"namespace,omitempty"`

	Classes []string `json:"classes,omitempty"` // of storage
}

// Parts are those that the file asks for, in the order in which they come.
func (c *Cluster) Parts() []Part {
	var out []Part
	for _, p := range c.pieces() {
		x := Part{Name: p.Name, Via: p.Via, Classes: p.Classes}
		if p.Release != nil {
			x.Chart, x.Namespace = p.Release.Chart+" "+p.Release.Version, p.Release.Namespace
		}
		out = append(out, x)
	}
	return out
}

// checkCharts adds the step that everything which changes the world waits for, where
// there is a platform.
func (c *Cluster) checkCharts(up *converge.Graph) *converge.Ref {
	if pieces, err := c.platformParts(); err == nil && len(pieces) == 0 {
		return nil
	}
	return up.Add(c.chartsStep())
}

// chartsStep looks whether every chart is there, is for this Kubernetes, and takes
// the values that we have for it, before anything changes: what is wrong with them
// is wrong from the beginning.
func (c *Cluster) chartsStep() *converge.Resource[struct{}] {
	return &converge.Resource[struct{}]{
		ID: "charts",
		Observe: func(ctx context.Context) (struct{}, error) {
			pieces, err := c.platformParts()
			if err != nil {
				return struct{}{}, converge.Permanent(err)
			}
			g, ctx := errgroup.WithContext(ctx)
			errs := make([]error, len(pieces))
			source, can := c.chartSource(), chart.Capabilities{Kubernetes: c.spec.K3s.Version, APIs: apis(pieces)}
			for i, p := range pieces {
				if p.Release == nil {
					continue
				}
				g.Go(func() error {
					if err := source.Validate(ctx, *p.Release, can); err != nil {
						errs[i] = fmt.Errorf("%s: %w", p.Name, err)
					}
					return nil
				})
			}
			_ = g.Wait() // what is wrong is in errs
			err = errors.Join(errs...)
			if !wait.IsPassing(err) { // a repository may be away for a while
				err = converge.Permanent(err)
			}
			return struct{}{}, err
		},
		Diff: func(struct{}) drift.Diff { return nil },
	}
}

// apis are kinds that parts bring and that templates of others ask for.
func apis(pieces []platform.Piece) []string {
	var out []string
	for _, p := range pieces {
		switch p.Name {
		case "monitoring":
			out = append(out, "monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/PrometheusRule")
		case "cert-manager":
			out = append(out, "cert-manager.io/v1", "cert-manager.io/v1/Issuer", "cert-manager.io/v1/Certificate")
		}
	}
	return out
}
