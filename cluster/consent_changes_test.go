package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The moments at which something else happens: at the question, when the run begins, when a step has
// looked and is about to act, and when it has begun to drain a node for that.
const (
	atQuestion = iota
	atBegin
	atAct
	atDrain
)

// The world changes between a question and what was agreed to. Nothing is lost that was not shown.
func TestTheWorldChangesAfterTheQuestion(t *testing.T) {
	mine := share.Start(t, "changes after a question")
	rows := []string{"| what was agreed to | and then | at the question | when the run begins | before a step acts | while it drains |", "|---|---|---|---|---|---|"}
	all := len(rows)
	for _, k := range costly() {
		all += len(k.events)
		t.Run(k.name, func(t *testing.T) {
			for _, e := range k.events {
				t.Run(e.what, func(t *testing.T) {
					row, whole := fmt.Sprintf("| %s | %s |", k.name, e.what), true
					for _, moment := range []int{atQuestion, atBegin, atAct, atDrain} {
						if !mine.Next() {
							whole = false
							continue
						}
						row += " " + k.meanwhile(t, e, moment) + " |"
					}
					if whole {
						rows = append(rows, row)
					}
				})
			}
		})
	}
	if len(rows) == all { // not of a share
		docBlock(t, "testdata/meanwhile.md", "meanwhile", strings.Join(rows, "\n")+"\n")
	}
}

// lateRun is a change that was agreed to, with what it needs.
type lateRun struct {
	w      *world
	g      *converge.Graph
	agreed *converge.Agreement
	steps  []string // those that cost the node something
}

// prepared is a world with a change whose costs were shown and agreed to.
func (k costlyChange) prepared(t *testing.T) lateRun {
	t.Helper()
	w := newWorld(t, pvesim.EightA100())
	text := k.site(t, w)
	time.Sleep(time.Minute)
	w.kubeTap = w.tapDrain
	make := k.begun
	if make == nil {
		make = func(t *testing.T, w *world, text string) *converge.Graph { return k.graph(t, w, text) }
	}
	g := make(t, w, text)
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err(), k.name)
	r := lateRun{w: w, g: g, agreed: &converge.Agreement{Destroy: k.destroy}}
	lacking := r.agreed.NotAgreed(plan)
	require.NotEqual(t, len(k.destroy) > 0, len(lacking) > 0, k.name)
	r.agreed.Agree(lacking...)
	for _, it := range plan.Items {
		if slices.ContainsFunc(it.Costs, func(c converge.Cost) bool { return strings.Contains(c.Machine, k.node) }) {
			r.steps = append(r.steps, it.Step)
		}
	}
	require.NotEmpty(t, r.steps, k.name)
	return r
}

// tapDrain calls evicting before the first eviction.
func (w *world) tapDrain(way http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/eviction") && w.evicting != nil {
			w.evicting()
		}
		return way.RoundTrip(req)
	})
}

// meanwhile runs one change, and something else at a moment of it: before a step acts once for each.
// It says how that ended, and "–" if there is no such moment.
func (k costlyChange) meanwhile(t *testing.T, e event, moment int) string {
	first, steps := k.once(t, e, moment, 0)
	out := []string{first}
	for i := 1; moment == atAct && i < steps; i++ {
		next, _ := k.once(t, e, moment, i)
		out = append(out, next)
	}
	if acted := slices.DeleteFunc(slices.Clone(out), func(s string) bool { return s == "–" }); len(acted) > 0 {
		out = acted
	} else {
		assert.Equal(t, atDrain, moment, "%s; %s: it had no such moment", k.name, e.what)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// once is meanwhile with one of the steps. It returns how many there are.
func (k costlyChange) once(t *testing.T, e event, moment, step int) (out string, steps int) {
	synctest.Test(t, func(t *testing.T) {
		r := k.prepared(t)
		defer r.w.close()
		steps = len(r.steps)
		var gone func() bool
		var has atomic.Bool
		happens := func(now int) {
			if now == moment && has.CompareAndSwap(false, true) {
				gone = e.do(t, r.w, k)
			}
		}
		happens(atQuestion)
		before := r.g.BeforeActing
		r.g.BeforeActing = func(ctx context.Context) error {
			happens(atBegin)
			if before == nil {
				return nil
			}
			return before(ctx)
		}
		r.g.Approve = func(ctx context.Context, it converge.Item) error {
			err := r.agreed.Approve(ctx, it)
			if err == nil && it.Step == r.steps[step] {
				happens(atAct)
			}
			return err
		}
		r.w.evicting = func() { happens(atDrain) }
		_, err := r.g.Run(t.Context(), r.w.listen(t))
		name := fmt.Sprintf("%s; %s (%d, %s)", k.name, e.what, moment, r.steps[step])
		out = k.ended(t, e, name, gone, err, moment)
	})
	return out, steps
}

// ended says how a run ended during which something has come.
func (k costlyChange) ended(t *testing.T, e event, name string, gone func() bool, err error, moment int) string {
	t.Helper()
	var no *converge.RefusedError
	switch {
	case gone == nil:
		return "–"
	case gone() && e.inside && (k.whole || k.another && moment == atAct): // a login on one server is one on every node
		return "as agreed"
	case gone() && k.sudden && e.inside && moment == atAct:
		return "too late"
	case gone():
		assert.Fail(t, "it is lost, and nobody was asked", "%s: %v", name, err)
		return "lost"
	case errors.As(err, &no):
		return "asks"
	case err != nil:
		return "fails"
	}
	return "not lost"
}
