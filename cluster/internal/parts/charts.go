package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
)

// Pieces are the parts of the platform. It returns none if they could not be made; chartsStep
// reports the error.
func (s *Steps) Pieces() []addon.Recipe {
	pieces, _ := s.Make()
	return pieces
}

// AddCheck adds the step that every change waits for, if there is a platform.
func (s *Steps) AddCheck(up *converge.Graph) *converge.Ref {
	if pieces, err := s.Make(); err == nil && len(pieces) == 0 {
		return nil
	}
	return up.Add(s.chartsStep())
}

// chartsStep checks, before anything changes, whether every chart is available, supports this
// version of Kubernetes, and accepts our values, and whether the credentials of dns are taken and the provider of the login
// answers. Errors
// in these exist from the start, so the check can find them this early.
func (s *Steps) chartsStep() *converge.Resource[struct{}] {
	return &converge.Resource[struct{}]{
		ID: "charts",
		Observe: func(ctx context.Context) (struct{}, error) {
			pieces, err := s.Make()
			if err != nil {
				return struct{}{}, converge.Permanent(err)
			}
			g, ctx := errgroup.WithContext(ctx)
			errs := make([]error, len(pieces)+2)
			source, can := chartSource(s), helm.Capabilities{Kubernetes: s.Spec.K3s.Version, APIs: apis(pieces)}
			for i, p := range pieces {
				if p.Release == nil {
					continue
				}
				g.Go(func() error {
					if err := source.Check(ctx, *p.Release, can); err != nil {
						errs[i] = fmt.Errorf("%s: %w%s", p.Name, err, filledBy(s.Spec, source, err))
					}
					return nil
				})
			}
			if d := s.Spec.Platform.DNS; d != nil && s.CheckDNS != nil {
				g.Go(func() error { errs[len(pieces)] = s.CheckDNS(ctx, d); return nil })
			}
			if l := s.Spec.Platform.Login; l != nil && l.Provider != nil && s.CheckProvider != nil {
				g.Go(func() error { errs[len(pieces)+1] = s.CheckProvider(ctx, &s.Spec.Platform); return nil })
			}
			_ = g.Wait() // errs has all errors
			err = errors.Join(errs...)
			if !converge.IsTransient(err) { // a repository may be down for a while
				err = converge.Permanent(err)
			}
			return struct{}{}, err
		},
		Diff: func(struct{}) converge.Diff { return nil },
	}
}

// apis are the kinds that parts add and that templates of other parts ask for.
func apis(pieces []addon.Recipe) []string {
	var out []string
	for _, p := range pieces {
		out = append(out, p.APIs...)
	}
	return out
}

// filledBy says what fills the folder of charts, if it lacks one.
func filledBy(of *spec.Spec, from helm.Source, err error) string {
	if none := new(helm.NotFoundError); errors.As(err, &none) || errors.Is(err, fs.ErrNotExist) {
		return of.Mirror.FilledBy(from.Folder)
	}
	return ""
}
