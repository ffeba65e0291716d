package converge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func destroys(name string) Cost {
	return Cost{Machine: name, Kind: CostDestroy, Reason: "no longer in the file"}
}

func stops(name string) Cost {
	return Cost{Machine: name, Kind: CostStop, Reason: "other memory", Downtime: "2 to 10 min"}
}

func enters(name string) Cost {
	return Cost{Machine: name, Kind: CostLogin, Reason: "no server knows us"}
}

func covers(a *Agreement, c Cost) bool { return len(a.lacking([]Cost{c})) == 0 }

func TestWhatCovers(t *testing.T) {
	for name, x := range map[string]struct {
		a      *Agreement
		cost   Cost
		covers bool
	}{
		"nothing, stop":             {&Agreement{}, stops("a"), false},
		"nothing, destroy":          {&Agreement{}, destroys("a"), false},
		"everything":                {&Agreement{Everything: true}, destroys("a"), true},
		"restarts":                  {&Agreement{Restarts: true}, stops("a"), true},
		"restarts destroy nothing":  {&Agreement{Restarts: true}, destroys("a"), false},
		"named":                     {&Agreement{Destroy: []string{"a"}}, destroys("a"), true},
		"named is that one alone":   {&Agreement{Destroy: []string{"a"}}, destroys("aa"), false},
		"what is destroyed stops":   {&Agreement{Destroy: []string{"a"}}, stops("a"), true},
		"others do not":             {&Agreement{Destroy: []string{"a"}}, stops("b"), false},
		"nothing, enter":            {&Agreement{}, enters("a"), false},
		"logins":                    {&Agreement{Logins: true}, enters("a"), true},
		"logins destroy nothing":    {&Agreement{Logins: true}, destroys("a"), false},
		"logins stop nothing":       {&Agreement{Logins: true}, stops("a"), false},
		"restarts let nobody in":    {&Agreement{Restarts: true}, enters("a"), false},
		"to destroy is no login":    {&Agreement{Destroy: []string{"a"}}, enters("a"), false},
		"everything is logins too":  {&Agreement{Everything: true}, enters("a"), true},
		"an empty name is nobody's": {&Agreement{Destroy: nil}, destroys(""), false},
	} {
		assert.Equal(t, x.covers, covers(x.a, x.cost), name)
	}
	shown := &Agreement{}
	shown.Agree(stops("a"))
	assert.True(t, covers(shown, stops("a")))
	assert.False(t, covers(shown, destroys("a")), "it was to come back")
	assert.False(t, covers(shown, stops("b")))
	shown.Agree(destroys("b"))
	assert.True(t, covers(shown, stops("b")))
	assert.False(t, covers(shown, enters("b")), "that it goes does not say that somebody may look into it")
	shown.Agree(enters("c"))
	assert.True(t, covers(shown, enters("c")))
	assert.False(t, covers(shown, stops("c")))
}

// Whatever a plan costs: what is lacking is what Approve refuses, nothing else, and both who
// agrees to what is shown and who names it may go on with just that.
func TestAgreementsHold(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		plan := &Plan{}
		for i := range 1 + r.IntN(6) {
			it := Item{Step: fmt.Sprint(i), Verdict: Change}
			for range r.IntN(3) {
				cost := stops(fmt.Sprintf("m%d", r.IntN(5)))
				switch r.IntN(3) {
				case 0:
					cost = destroys(cost.Machine)
				case 1:
					cost = enters(cost.Machine)
				}
				it.Costs = append(it.Costs, cost)
			}
			plan.Items = append(plan.Items, it)
		}
		a := &Agreement{Restarts: r.IntN(2) == 0, Logins: r.IntN(2) == 0}
		for i := range 5 {
			if r.IntN(3) == 0 {
				a.Destroy = append(a.Destroy, fmt.Sprintf("m%d", i))
			}
		}
		lacking := a.NotAgreed(plan)
		var refused []Cost
		for _, it := range plan.Items {
			err := a.Approve(t.Context(), it)
			var no *RefusedError
			if err != nil {
				require.ErrorAs(t, err, &no)
				require.Equal(t, it.Step, no.Step)
				refused = append(refused, no.Costs...)
			}
		}
		require.Equal(t, lacking, refused, "seed %d", seed)
		of := func(kind CostKind) bool {
			return slices.ContainsFunc(lacking, func(c Cost) bool { return c.Kind == kind })
		}
		names := a.Names(lacking...)
		require.Equal(t, of(CostDestroy), len(names) > 0, "seed %d", seed)
		byName := &Agreement{Restarts: a.Restarts || of(CostStop), Logins: a.Logins || of(CostLogin), Destroy: slices.Concat(a.Destroy, names)}
		a.Agree(lacking...)
		for _, agreed := range []*Agreement{a, byName} {
			require.Empty(t, agreed.NotAgreed(plan), "seed %d: %s", seed, names)
			require.False(t, covers(agreed, destroys("m9")), "seed %d", seed)
		}
	}
}

func TestARefusalSaysWhat(t *testing.T) {
	err := (&Agreement{}).Approve(t.Context(), Item{Step: "removed", Costs: []Cost{destroys("wk4"), stops("wk1"), destroys("wk4")}})
	assert.EqualError(t, err, "not done, since nobody has agreed to it: wk4 is destroyed (no longer in the file); "+
		"wk1 is stopped for 2 to 10 min (other memory)\n  run it again, and it asks")
	assert.Equal(t, []string{"wk3", "wk4"}, (&Agreement{}).Names(destroys("wk4"), stops("wk1"), destroys("wk3"), destroys("wk4")))
}

// A yes is to a thing with what was in it. What has become less, or is only counted, asks nobody.
func TestWhatWasShown(t *testing.T) {
	loss := func(text, id string) Loss { return Loss{Text: text, ID: id} }
	cost := func(kind CostKind, thing string, holds ...Loss) Cost {
		return Cost{Machine: "a", Object: "node", Identity: thing, Kind: kind, Holds: holds}
	}
	data := loss("disk data (50GiB)", "vmdata:vm-1-disk-1")
	counted, unknown := Loss{Text: "3 other pods", Counted: true}, Loss{Text: "no answer", Unknown: true}
	a := &Agreement{}
	a.Agree(cost(CostDestroy, "1 x", data))
	for name, x := range map[string]struct {
		cost   Cost
		lacks  string
		unseen bool
	}{
		"the same":             {cost(CostDestroy, "1 x", data), "", false},
		"less":                 {cost(CostDestroy, "1 x"), "", false},
		"stopped first":        {cost(CostStop, "1 x", data), "", false},
		"larger by now":        {cost(CostDestroy, "1 x", loss("disk data (60GiB)", data.ID)), "", false},
		"counted":              {cost(CostDestroy, "1 x", counted), "", false},
		"another disk":         {cost(CostDestroy, "1 x", data, loss(data.Text, "vmdata:vm-1-disk-2")), "a is destroyed, and with it disk data (50GiB)", false},
		"another by text":      {cost(CostDestroy, "1 x", loss("new", ""), counted), "a is destroyed, and with it new", false},
		"another VM":           {cost(CostDestroy, "2 y", data), "a is destroyed (not the one that was shown: it has its name), and with it disk data (50GiB)", false},
		"unseen":               {cost(CostDestroy, "1 x", unknown), "a is destroyed, and with it no answer", true},
		"unseen, and new":      {cost(CostDestroy, "1 x", unknown, loss("new", "")), "a is destroyed, and with it no answer, new", false},
		"unseen of another VM": {cost(CostDestroy, "2 y", unknown), "a is destroyed (not the one that was shown: it has its name), and with it no answer", false},
		"a login":              {cost(CostLogin, "1 x"), "a login is added to a", false},
		"another's name":       {Cost{Machine: "b", Object: "node", Kind: CostDestroy}, "b is destroyed", false},
		"another sort":         {Cost{Machine: "a", Object: "part", Kind: CostDestroy}, "a is destroyed", false},
	} {
		err := a.Approve(t.Context(), Item{Step: "s", Costs: []Cost{x.cost}})
		if x.lacks == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, "not done, since nobody has agreed to it: "+x.lacks+"\n  run it again, and it asks", name)
		var no *RefusedError
		require.ErrorAs(t, err, &no)
		assert.Equal(t, x.unseen, no.Transient(), name)
	}
	a.Agree(cost(CostDestroy, "1 x", unknown))
	require.NoError(t, a.Approve(t.Context(), Item{Costs: []Cost{cost(CostDestroy, "1 x", Loss{Text: "another reason", Unknown: true})}}))
}

// A name means one thing: what bears it in the plan, or else what bears it first.
func TestANameMeansOneThing(t *testing.T) {
	node := Cost{Machine: "m", Object: "node", Kind: CostDestroy}
	part := Cost{Machine: "m", Object: "part", Kind: CostDestroy}
	plan := func(costs ...Cost) *Plan {
		return &Plan{Items: []Item{{Costs: costs}}}
	}
	a := &Agreement{Destroy: []string{"m"}}
	assert.Len(t, a.NotAgreed(plan(node, part)), 2)
	assert.Equal(t, []string{"m"}, a.Ambiguous())
	assert.Equal(t, []string{"node:m"}, a.Names(node), "the other one has the name too")
	a = &Agreement{Destroy: []string{"m"}}
	assert.Empty(t, a.NotAgreed(plan(part)))
	assert.Empty(t, a.Ambiguous())
	require.Error(t, a.Approve(t.Context(), Item{Costs: []Cost{node}}), "it comes later")
	a = &Agreement{Destroy: []string{"part:m"}}
	assert.Equal(t, []Cost{node}, a.NotAgreed(plan(node, part)))
	nothing := &Agreement{}
	assert.Equal(t, []string{"node:m", "part:m"}, nothing.Names(node, part))
	assert.Equal(t, []string{"m"}, nothing.Names(node))
	assert.Equal(t, []string{"m"}, nothing.Names(node, Cost{Machine: "m", Object: "part", Kind: CostStop}), "the other one is only stopped")
	assert.Empty(t, nothing.Names(Cost{Machine: "m", Kind: CostStop}))

	// What is only stopped takes the name from nothing.
	a = &Agreement{Destroy: []string{"m"}}
	assert.Len(t, a.NotAgreed(plan(Cost{Machine: "m", Object: "part", Kind: CostStop}, node)), 1)
	assert.Empty(t, a.Ambiguous())
	a = &Agreement{Destroy: []string{"m"}}
	a.NotAgreed(plan(Cost{Machine: "x", Kind: CostStop}, node, part))
	assert.Equal(t, []string{"m"}, a.Ambiguous())
}
