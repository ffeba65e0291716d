package consent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
)

// A yes is to a thing with what was in it. What has become less, or is only counted, asks nobody.
func TestWhatWasShown(t *testing.T) {
	loss := func(text, id string) converge.Loss { return converge.Loss{Text: text, ID: id} }
	cost := func(kind converge.CostKind, thing string, holds ...converge.Loss) converge.Cost {
		return converge.Cost{Machine: "a", Object: "node", Identity: thing, Kind: kind, Holds: holds}
	}
	data := loss("disk data (50GiB)", "vmdata:vm-1-disk-1")
	counted, unknown := converge.Loss{Text: "3 other pods", Counted: true}, converge.Loss{Text: "no answer", Unknown: true}
	a := &Agreement{}
	a.Agree(cost(converge.CostDestroy, "1 x", data))
	for name, x := range map[string]struct {
		cost   converge.Cost
		lacks  string
		unseen bool
	}{
		"the same":             {cost(converge.CostDestroy, "1 x", data), "", false},
		"less":                 {cost(converge.CostDestroy, "1 x"), "", false},
		"stopped first":        {cost(converge.CostStop, "1 x", data), "", false},
		"larger by now":        {cost(converge.CostDestroy, "1 x", loss("disk data (60GiB)", data.ID)), "", false},
		"counted":              {cost(converge.CostDestroy, "1 x", counted), "", false},
		"another disk":         {cost(converge.CostDestroy, "1 x", data, loss(data.Text, "vmdata:vm-1-disk-2")), "a is destroyed, and with it disk data (50GiB)", false},
		"another by text":      {cost(converge.CostDestroy, "1 x", loss("new", ""), counted), "a is destroyed, and with it new", false},
		"another VM":           {cost(converge.CostDestroy, "2 y", data), "a is destroyed (not the one that was shown: it has its name), and with it disk data (50GiB)", false},
		"unseen":               {cost(converge.CostDestroy, "1 x", unknown), "a is destroyed, and with it no answer", true},
		"unseen, and new":      {cost(converge.CostDestroy, "1 x", unknown, loss("new", "")), "a is destroyed, and with it no answer, new", false},
		"unseen of another VM": {cost(converge.CostDestroy, "2 y", unknown), "a is destroyed (not the one that was shown: it has its name), and with it no answer", false},
		"a login":              {cost(converge.CostLogin, "1 x"), "a login is added to a", false},
		"another's name":       {converge.Cost{Machine: "b", Object: "node", Kind: converge.CostDestroy}, "b is destroyed", false},
		"another sort":         {converge.Cost{Machine: "a", Object: "part", Kind: converge.CostDestroy}, "a is destroyed", false},
	} {
		err := a.May(t.Context(), converge.Item{Step: "s", Costs: []converge.Cost{x.cost}})
		if x.lacks == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, "not done, since nobody has agreed to it: "+x.lacks+"\n  run it again, and it asks", name)
		var no *RefusedError
		require.ErrorAs(t, err, &no)
		assert.Equal(t, x.unseen, no.Transient(), name)
		require.Equal(t, x.unseen, no.Is(converge.ErrCostsUnknown), name)
	}
	a.Agree(cost(converge.CostDestroy, "1 x", unknown))
	require.NoError(t, a.May(t.Context(), converge.Item{Costs: []converge.Cost{cost(converge.CostDestroy, "1 x", converge.Loss{Text: "another reason", Unknown: true})}}))
}

// A name means one thing: what bears it in the plan, or else what bears it first.
func TestANameMeansOneThing(t *testing.T) {
	node := converge.Cost{Machine: "m", Object: "node", Kind: converge.CostDestroy}
	part := converge.Cost{Machine: "m", Object: "part", Kind: converge.CostDestroy}
	plan := func(costs ...converge.Cost) *converge.Plan {
		return &converge.Plan{Items: []converge.Item{{Costs: costs}}}
	}
	a := &Agreement{Destroy: []string{"m"}}
	assert.Len(t, a.Lacking(plan(node, part)), 2)
	assert.Equal(t, []string{"m"}, a.Ambiguous())
	assert.Equal(t, "-destroy=node:m", a.Flags(node), "the other one has the name too")
	a = &Agreement{Destroy: []string{"m"}}
	assert.Empty(t, a.Lacking(plan(part)))
	assert.Empty(t, a.Ambiguous())
	require.Error(t, a.May(t.Context(), converge.Item{Costs: []converge.Cost{node}}), "it comes later")
	a = &Agreement{Destroy: []string{"part:m"}}
	assert.Equal(t, []converge.Cost{node}, a.Lacking(plan(node, part)))
	assert.Equal(t, "-destroy=node:m,part:m", Flags(node, part))
	assert.Equal(t, "-destroy=m", Flags(node))
	assert.Equal(t, "-restart -destroy=m", Flags(node, converge.Cost{Machine: "m", Object: "part", Kind: converge.CostStop}), "the other one is only stopped")
	assert.Equal(t, "-restart", Flags(converge.Cost{Machine: "m", Kind: converge.CostStop}))

	// What is only stopped takes the name from nothing.
	a = &Agreement{Destroy: []string{"m"}}
	assert.Len(t, a.Lacking(plan(converge.Cost{Machine: "m", Object: "part", Kind: converge.CostStop}, node)), 1)
	assert.Empty(t, a.Ambiguous())
	a = &Agreement{Destroy: []string{"m"}}
	a.Lacking(plan(converge.Cost{Machine: "x", Kind: converge.CostStop}, node, part))
	assert.Equal(t, []string{"m"}, a.Ambiguous())
}

// Pods of one Deployment are the same work, whatever their ReplicaSets are called.
func TestThePodsOfOneController(t *testing.T) {
	pod := func(name, kind, owner, hash string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"pod-template-hash": hash}}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: new(true)}}
		}
		return p
	}
	assert.Equal(t, madeBy(pod("a-1-x", "ReplicaSet", "a-1", "1")), madeBy(pod("a-2-y", "ReplicaSet", "a-2", "2")))
	assert.Equal(t, "Deployment ns/a", madeBy(pod("a-1-x", "ReplicaSet", "a-1", "1")))
	assert.Equal(t, "Job ns/train-1", madeBy(pod("train-1-z", "Job", "train-1", "1")), "a Job's name is its own")
	assert.Equal(t, "ReplicaSet ns/c-", madeBy(pod("c-x", "ReplicaSet", "c-", "")))
	assert.Equal(t, "ReplicaSet ns/b", madeBy(pod("b-x", "ReplicaSet", "b", "")))
	assert.Equal(t, "Pod ns/lone", madeBy(pod("lone", "", "", "")))
}
