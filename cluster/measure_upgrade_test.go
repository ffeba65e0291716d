package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// turns is how long each node was away in an upgrade, and how long it took in all: from when
// the first node was drained until the last one was back.
type turns struct {
	each  map[string]time.Duration
	whole time.Duration
}

func upgradeOf(t *testing.T, nodes int) turns {
	t.Helper()
	out := turns{each: map[string]time.Duration{}}
	synctest.Test(t, func(t *testing.T) {
		before, model := sized(t, nodes)
		w := newWorld(t, model)
		w.up(t, before)
		time.Sleep(time.Minute)
		after := *before
		after.K3s.Version = newer
		began := map[string]time.Time{}
		var first, last time.Time
		c := w.cluster(t, &after)
		defer c.Close()
		_, err := c.Up().Run(t.Context(), func(e converge.Event) {
			node, ok := strings.CutPrefix(e.Step, "k3s/")
			switch {
			case !ok:
			case strings.HasPrefix(e.Message, "saving etcd") || strings.HasPrefix(e.Message, "draining "+node) && began[node].IsZero():
				if began[node] = e.Time; first.IsZero() {
					first = e.Time
				}
			case e.Kind == converge.Changed:
				out.each[node], last = e.Time.Sub(began[node]), e.Time
			}
		})
		require.NoError(t, err)
		out.whole = last.Sub(first)
	})
	require.Len(t, out.each, nodes)
	return out
}

// least is the time that the gates leave at least: the nodes go down one after the other, each
// for as long as a node of its role was away where it was the quickest.
func (u turns) least(alone turns, s *spec.Spec) time.Duration {
	quickest := map[spec.Role]time.Duration{}
	var sum time.Duration
	for _, n := range s.Nodes {
		if d, ok := alone.each[n.Name]; ok && (quickest[n.Role] == 0 || d < quickest[n.Role]) {
			quickest[n.Role] = d
		}
	}
	for _, n := range s.Nodes {
		sum += quickest[n.Role]
	}
	return sum
}

// A rolling upgrade takes no longer than its gates want: nothing waits between one node and
// the next.
func TestUpgradeTakesNoLongerThanItsGates(t *testing.T) {
	alone, all := upgradeOf(t, 4), upgradeOf(t, 7)
	s, _ := sized(t, 7)
	least := all.least(alone, s)
	assert.LessOrEqual(t, float64(all.whole)/float64(least), 1.05, "%s, and %s was possible: %v", all.whole, least, all.each)
}

func TestMeasureUpgrade(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: go tool mage bench")
	}
	alone := upgradeOf(t, 4)
	for _, n := range []int{7, 50} {
		all := upgradeOf(t, n)
		s, _ := sized(t, n)
		least := all.least(alone, s)
		fmt.Printf("%d nodes, upgrade of K3s: %s virtual, least possible %s, ratio %.3f; a server is away for %s, an agent for %s\n", n, all.whole.Round(time.Second),
			least.Round(time.Second), float64(all.whole)/float64(least), alone.each["cp2"].Round(time.Second), alone.each["wk-gpu1"].Round(time.Second))
	}
}
