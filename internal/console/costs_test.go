package console

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
)

func losses(texts ...string) (out []converge.Loss) {
	for _, text := range texts {
		out = append(out, converge.Loss{Text: text})
	}
	return out
}

// lost is what a change of half a cluster costs.
func lost() []converge.Cost {
	away := "2 to 10 min"
	stop := func(name string, users ...string) converge.Cost {
		return converge.Cost{Machine: name, Kind: converge.CostStop, Reason: "other memory", Users: losses(users...), Downtime: away}
	}
	return []converge.Cost{
		stop("wk-gpu1", "the notebook of teacher", "2 other pods"),
		{Machine: "wk-gpu1", Kind: converge.CostStop, Reason: "K3s v1.36.4+k3s1 → v1.36.5+k3s1", Users: losses("the notebook of teacher", "2 other pods"), Downtime: away},
		stop("wk-gpu2"), stop("wk-gpu3"),
		{Machine: "wk-gpu4", Kind: converge.CostDestroy, Reason: "no longer in the file", Users: losses("the notebook of student3", "pod train/llm-0 (2 GPU)", "4 other pods"),
			Holds: losses("disk data (2TiB)", "volume jupyterhub/claim-student3 (10Gi)")},
		{Machine: "wk-gpu4", Kind: converge.CostStop, Reason: "drained and removed from Kubernetes", Downtime: away},
		{Machine: "monitoring", Kind: converge.CostDestroy, Reason: "no longer in the file"},
		{Machine: "wk-gpu1", Kind: converge.CostLogin, Reason: "no server of the cluster knows a key of this run"},
		{Machine: "wk-gpu4", Kind: converge.CostLogin, Reason: "no server of the cluster knows a key of this run"},
		{Machine: "edge", Kind: converge.CostLogin, Reason: "another reason"},
		{Machine: "disk models of wk-gpu2", Kind: converge.CostStop, Reason: "no longer in the file: detached, its volume is kept", Holds: losses("500GiB")},
	}
}

func TestCosts(t *testing.T) {
	for _, width := range []int{0, 60} {
		c := capture(0)
		if width > 0 {
			c.Console.talk.size = func() (int, int) { return width, 24 }
		}
		c.Costs(lost())
		assert.Empty(t, c.data.String(), "it is not data")
		golden(t, map[int]string{0: "costs_pipe.txt", 60: "costs_60.txt"}[width], c.talk.String())
	}
}

// Names that somebody else gave cannot write on the terminal, nor begin lines of their own.
func TestCostsForgeNothing(t *testing.T) {
	c := capture(0, "hunter2")
	c.Costs([]converge.Cost{{Machine: "a\x1b[2J", Kind: converge.CostStop, Reason: "x\ny", Holds: losses("disk\nwk9 is fine"), Users: losses("the notebook of \x1b]0;title\x07hunter2")}})
	out := c.talk.String()
	assert.NotContains(t, out, "\x1b")
	assert.NotContains(t, out, "hunter2")
	assert.Equal(t, 3, strings.Count(out, "\n"), out)
}

// Costs of one thing are one, with all reasons and the worst kind; two things of one name are told apart.
func TestCostsAreMerged(t *testing.T) {
	c := capture(0)
	c.Costs([]converge.Cost{
		{Machine: "a", Object: "node", Kind: converge.CostStop, Downtime: "1 min", Holds: losses("x", "y")},
		{Machine: "a", Object: "node", Kind: converge.CostStop, Reason: "memory", Holds: losses("y", "z")},
		{Machine: "a", Object: "node", Kind: converge.CostDestroy, Reason: "removed"}, {Machine: "a", Object: "node", Kind: converge.CostStop, Reason: "removed"},
		{Machine: "a", Object: "part", Kind: converge.CostStop},
		{Machine: "a", Object: "node", Kind: converge.CostLogin},
		{Machine: "b", Object: "node", Kind: converge.CostDestroy}, {Machine: "b", Object: "login", Kind: converge.CostLogin}, {Machine: "c", Object: "node", Kind: converge.CostDestroy},
		{Machine: "d", Kind: converge.CostStop}, {Machine: "e", Kind: converge.CostStop},
	})
	assert.Equal(t, `node a is destroyed: memory; removed
    with  x, y, z
b, c are destroyed
a login is added to a, b
part a, d, e are stopped
`, c.talk.String())
}
