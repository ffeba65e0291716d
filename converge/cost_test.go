package converge_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

func TestCostInWords(t *testing.T) {
	for want, cost := range map[string]converge.Cost{
		"wk1 is stopped":                 {Machine: "wk1", Kind: converge.CostStop},
		"wk1 is stopped for 2 to 10 min": {Machine: "wk1", Kind: converge.CostStop, Downtime: "2 to 10 min"},
		"a login is added to wk1":        {Machine: "wk1", Kind: converge.CostLogin},
		"wk1 is destroyed":               {Machine: "wk1", Kind: converge.CostDestroy, Downtime: "2 to 10 min"},
	} {
		assert.Equal(t, want, cost.String())
	}
}

// A plan is settled when a run would find nothing to do: also not to files on this machine,
// which a plan is not about.
func TestSettled(t *testing.T) {
	for _, x := range []struct{ differs, local, act, changes, settled bool }{
		{differs: false, settled: true},
		{differs: true, act: true, changes: true},
		{differs: true, act: false, changes: true},
		{differs: true, act: true, local: true},
		{differs: false, local: true, settled: true},
	} {
		step := &converge.Resource[bool]{
			ID: "a", Local: x.local, Observe: func(context.Context) (bool, error) { return !x.differs, nil },
			Diff: func(same bool) converge.Diff {
				if same {
					return nil
				}
				return converge.Missing("it")
			},
		}
		if x.act {
			step.Apply = func(context.Context, bool) error { return nil }
		}
		var g converge.Graph
		g.Add(step)
		plan, err := g.Plan(t.Context())
		require.NoError(t, err)
		assert.Equal(t, x.changes, plan.Changes(), "%+v", x)
		assert.Equal(t, x.settled, plan.Converged(), "%+v", x)
	}
}
