package console

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// slow is a step whose look takes a while and finds a difference, or fails.
func slow(name string, takes time.Duration, diff converge.Diff, err error) converge.Step {
	return &converge.Resource[struct{}]{
		ID: name,
		Observe: func(ctx context.Context) (struct{}, error) {
			converge.Progressf(ctx, "connecting")
			select {
			case <-time.After(takes):
				return struct{}{}, err
			case <-ctx.Done():
				return struct{}{}, ctx.Err()
			}
		},
		Diff: func(struct{}) converge.Diff { return diff },
	}
}

// looked is what a look at such steps says before it has its result.
func looked(t *testing.T, g *converge.Graph) (*converge.Plan, string) {
	var talk strings.Builder
	c := &Console{Talk: &talk}
	looking := c.CheckProgress(len(g.Names()))
	plan, err := g.PlanWithEvents(t.Context(), looking.Listen)
	looking.Close()
	require.NoError(t, err)
	return plan, talk.String()
}

func TestLookingSaysWhatItSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &converge.Graph{}
		g.Add(slow("vm/a", time.Second, converge.Missing("VM"), nil))
		g.Add(slow("vm/b", 3*time.Second, nil, errors.New("no route to host")))
		g.Add(slow("vm/c", 3500*time.Millisecond, nil, nil))
		g.Add(slow("vm/d", time.Hour, nil, nil))
		plan, said := looked(t, g)
		assert.True(t, strings.HasPrefix(said, "vm/a                   "), said)
		assert.Contains(t, said, "checked 1 of 4 in 2.0s, now checking vm/b (connecting), vm/c (connecting), vm/d (connecting)\n"+
			"vm/b                   check failed: no route to host\nchecked 3 of 4 in 4.0s, now checking vm/d (connecting)\nchecked 3 of 4 in 8.0s, now")
		assert.Equal(t, converge.Failed, plan.Items[3].Verdict, "one that hangs does not hang the look")
		assert.ErrorContains(t, plan.Items[3].Err, "checking took longer than 30s")
	})
	synctest.Test(t, func(t *testing.T) {
		g := &converge.Graph{}
		for _, name := range []string{"e", "d", "c", "b", "a"} {
			g.Add(slow(name, 3*time.Second, nil, nil))
		}
		_, said := looked(t, g)
		assert.Equal(t, "checked 0 of 5 in 2.0s, now checking a (connecting), b (connecting), c (connecting), 2 more\n", said)
	})
}

func TestLookingIsQuietWhereItIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &converge.Graph{}
		g.Add(slow("vm/a", time.Second, converge.Missing("VM"), nil))
		_, said := looked(t, g)
		assert.Empty(t, said)
	})
}
