package parts

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/addon"
)

// storageStep proves a storage class once, until the class changes: it creates a volume, writes
// it, reads it, on another node if the class allows that, and deletes it.
func (s *Steps) storageStep(p addon.Probe) *converge.Resource[addon.ProbeState] {
	return &converge.Resource[addon.ProbeState]{
		ID: "storage/" + p.Class,
		Observe: func(ctx context.Context) (addon.ProbeState, error) {
			client, err := s.Kube(ctx)
			if err != nil {
				return addon.ProbeState{}, err
			}
			return p.Observe(ctx, client)
		},
		Diff: func(have addon.ProbeState) converge.Diff { return p.Diff(have) },
		Apply: func(ctx context.Context, _ addon.ProbeState) error {
			client, err := s.Kube(ctx)
			if err != nil {
				return err
			}
			return p.Run(ctx, client)
		},
		Hint: fmt.Sprintf("kubectl -n %s get pods,claims,events shows what the test of %s waits for", printable.Word(addon.ProbeNamespace), p.Class),
	}
}
