package parts

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/addon"
)

// storageStep proves a storage class once, until the class changes: it creates a volume, writes
// it, reads it, on another node if the class allows that, and deletes it.
func (s *Steps) storageStep(p platform.Piece, class string) *converge.Resource[addon.ProbeState] {
	var nodes []string
	for _, n := range s.Spec.Nodes {
		nodes = append(nodes, n.Name)
	}
	probe := addon.Probe{Class: class, Nodes: nodes, Tolerations: addon.Tolerations(platform.Taints(s.Spec))}
	for _, own := range addon.Probes(p.Part, nodes, platform.Taints(s.Spec)) {
		if own.Class == class {
			probe = own
		}
	}
	return &converge.Resource[addon.ProbeState]{
		ID: "storage/" + class,
		Observe: func(ctx context.Context) (addon.ProbeState, error) {
			client, err := s.Kube(ctx)
			if err != nil {
				return addon.ProbeState{}, err
			}
			return probe.Observe(ctx, client)
		},
		Diff: func(have addon.ProbeState) drift.Diff { return probe.Diff(have) },
		Apply: func(ctx context.Context, _ addon.ProbeState) error {
			client, err := s.Kube(ctx)
			if err != nil {
				return err
			}
			return probe.Run(ctx, client)
		},
		Hint: fmt.Sprintf("kubectl -n %s get pods,claims,events shows what the test of %s waits for", printable.Word(addon.ProbeNamespace), class),
	}
}
