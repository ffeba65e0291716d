package session

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/history"
)

// readTime limits how long to ask for what a status shows beside its plan.
const readTime = 20 * time.Second

// Inventory reads the machines of the cluster. It does not ask Kubernetes if plan, which may be
// nil, says that no server exists yet.
func (s *Session) Inventory(ctx context.Context, plan *converge.Plan) *cluster.Inventory {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	server := func(it converge.Item) bool {
		name, k3s := strings.CutPrefix(it.Step, "k3s/")
		n, _ := s.Spec.Node(name)
		return k3s && n.Role == spec.Server && it.Verdict != converge.Deferred
	}
	return s.Cluster.Inventory(ctx, plan == nil || slices.ContainsFunc(plan.Items, server))
}

// History is the file with the results of gpu:verify.
func (s *Session) History() string { return filepath.Join(s.Cluster.Dir, history.File) }
