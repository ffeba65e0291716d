package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// fuse is the power cord of the machine that up runs on: it is pulled at the n-th
// request to Proxmox. Nothing leaves the machine after that, over no connection.
type fuse struct {
	next   http.RoundTripper
	n      int
	before bool               // the n-th request is not sent; else it is served, and nobody hears the answer
	writes bool               // those that only read are not counted
	blow   context.CancelFunc // ends the run, as the end of a process does

	mu   sync.Mutex
	seen int
}

// count reports whether a request may go out, and whether it is the last.
func (f *fuse) count(r *http.Request) (ok, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writes && r.Method == http.MethodGet {
		return f.seen < f.n, false
	}
	f.seen++
	return f.seen < f.n || f.seen == f.n && !f.before, f.seen == f.n
}

func (f *fuse) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.send(f.next, r)
}

// send is a request over one of the wires that hang on the fuse.
func (f *fuse) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	ok, last := f.count(r)
	if last {
		defer f.blow()
	}
	if !ok {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, io.ErrClosedPipe
	}
	res, err := next.RoundTrip(r)
	if last && err == nil {
		_ = res.Body.Close()
		return nil, io.ErrClosedPipe
	}
	return res, err
}

// processStart is how long a next command needs to begin, in which what was on the
// wire when the first one died arrives. Tasks of the host take longer.
const processStart = 30 * time.Millisecond

// crash runs up on a machine that dies at the n-th request to Proxmox. It reports
// whether it did, or up was done before.
func (w *world) crash(t testing.TB, spec *spec.Spec, n int, before bool) (crashed bool) {
	t.Helper()
	ctx, blow := context.WithCancel(t.Context())
	defer blow()
	const dial = 1 // the request that shows that address and token are right
	f := &fuse{next: w.sim.Client().Transport, n: dial + n, before: before, blow: blow}
	c := w.clusterOver(t, spec, f)
	defer c.Close()
	_, err := c.Up().Run(ctx, w.listen(t))
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, context.Canceled)
	time.Sleep(processStart)
	return true
}

// recovers checks that another up, begun after a while, makes of what a crash has
// left behind the very world that would be there without it.
func (w *world) recovers(t testing.TB, spec *spec.Spec, want []string) {
	t.Helper()
	w.up(t, spec)
	assert.Equal(t, want, w.inventory())
	assert.Len(t, w.kube.Clusters(), 1, "one control plane, not two")
	nodes := w.nodes(t)
	for _, n := range spec.Nodes {
		assert.True(t, nodes[n.Name].Ready, "%s", n.Name)
		assert.EqualValues(t, n.GPUs.Count, nodes[n.Name].Count("nvidia.com/gpu"), "%s", n.Name)
	}
	assert.Len(t, nodes, len(spec.Nodes))
	before := w.now()
	assert.Empty(t, w.plan(t, spec))
	assert.Equal(t, changes{}, before.changes())
}

// smooth is the world that a spec makes when nothing goes wrong, and what is asked
// of Proxmox for it.
func smooth(t *testing.T, model pvesim.Model, spec *spec.Spec) (inventory []string, requests []pvesim.Request) {
	inWorld(t, model, func(t *testing.T, w *world) {
		w.up(t, spec)
		inventory, requests = w.inventory(), w.sim.Requests()[1:] // without that of Dial
	})
	return inventory, requests
}

// crashes kills up at one request, waits, and lets another finish the work. A last
// request may be one too many: how often a task is looked at is not always the same.
func crashes(t *testing.T, model pvesim.Model, spec *spec.Spec, n int, before bool, pause time.Duration, want []string) {
	t.Helper()
	t.Parallel()
	inWorld(t, model, func(t *testing.T, w *world) {
		if !w.crash(t, spec, n, before) {
			t.Skip("it was done by then")
		}
		time.Sleep(pause)
		w.recovers(t, spec, want)
	})
}

// A machine that dies at any request to Proxmox leaves nothing that the next up
// does not find and use: no second VM, no orphan disk or ISO. The next up begins at
// once in half of the cases, when tasks of the first still run, else a while later.
//
// To die after a request that only asks is to die before the next one, and of
// several looks at the same running task one is enough.
func TestCrashAtEveryRequest(t *testing.T) {
	spec := parse(t, lab(example(t, "one-gpu")))
	want, requests := smooth(t, pvesim.OneGPU(), spec)
	mine := share.Start(t, "deaths at requests")
	for i, r := range requests {
		n := i + 1
		if i > 0 && !r.Mutating && r.Path == requests[i-1].Path {
			continue
		}
		for _, before := range []bool{true, false}[:1+count(r.Mutating)] {
			if !mine.Next() {
				continue
			}
			pause := time.Duration(n%2) * time.Duration(n%60) * time.Second
			t.Run(fmt.Sprintf("%d before=%t", n, before), func(t *testing.T) {
				crashes(t, pvesim.OneGPU(), spec, n, before, pause, want)
			})
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A run that dies and is never begun again can be taken down: what it had begun goes
// too.
func TestCrashThenDown(t *testing.T) {
	spec := parse(t, lab(example(t, "one-gpu")))
	_, requests := smooth(t, pvesim.OneGPU(), spec)
	mine := share.Start(t, "deaths before down")
	for i, r := range requests {
		if !r.Mutating || !mine.Next() {
			continue
		}
		t.Run(fmt.Sprintf("%d %s %s", i+1, r.Method, path.Base(r.Path)), func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				untouched := w.inventory()
				w.crash(t, spec, i+1, false)
				w.down(t, spec)
				time.Sleep(time.Minute)
				assert.Equal(t, untouched, w.inventory())
			})
		})
	}
}

func TestCrashOfEightGPUs(t *testing.T) {
	spec := parse(t, example(t, "eight-a100"))
	want, requests := smooth(t, pvesim.EightA100(), spec)
	mine := share.Start(t, "deaths at every tenth request")
	for n := 5; n <= len(requests); n += 10 {
		if !mine.Next() {
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			crashes(t, pvesim.EightA100(), spec, n, n%20 == 5, time.Duration(n%3)*10*time.Second, want)
		})
	}
}

// Not only Proxmox is spoken to: the run dies at any time.
func TestCrashAtAnyTime(t *testing.T) {
	spec := parse(t, example(t, "eight-a100"))
	want, _ := smooth(t, pvesim.EightA100(), spec)
	mine := share.Start(t, "deaths at times")
	for at := 41 * time.Second; at < 85*time.Second; at += 4300 * time.Millisecond {
		if !mine.Next() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				require.False(t, w.cut(t, spec, at))
				w.recovers(t, spec, want)
			})
		})
	}
}

// Ten deaths of one life, each at another place.
func TestTenCrashesInARow(t *testing.T) {
	spec := parse(t, example(t, "eight-a100"))
	want, _ := smooth(t, pvesim.EightA100(), spec)
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		for i := range 10 {
			require.True(t, w.crash(t, spec, 20+7*i, i%2 == 0))
		}
		w.recovers(t, spec, want)
	})
}

// A run that changes a life dies as well as one that begins it: while a node is
// drained, off, or half gone.
func TestCrashWhileChanging(t *testing.T) {
	text := lab(example(t, "one-gpu"))
	before := parse(t, text)
	for name, after := range map[string]*spec.Spec{
		"memory":  parse(t, replace(t, text, "gpus: 1}", "gpus: 1, memory: 96GiB, labels: {example.com/tier: gold}}")),
		"removed": parse(t, strings.Split(text, "  gpu:")[0]),
	} {
		want, requests := changed(t, before, after)
		mine := share.Start(t, "deaths while changing, "+name)
		for i, r := range requests {
			if i > 0 && !r.Mutating && r.Path == requests[i-1].Path {
				continue
			}
			for _, early := range []bool{true, false}[:1+count(r.Mutating)] {
				if !mine.Next() {
					continue
				}
				t.Run(fmt.Sprintf("%s %d before=%t", name, i+1, early), func(t *testing.T) {
					t.Parallel()
					inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
						w.up(t, before)
						time.Sleep(time.Minute)
						w.crash(t, after, i+1, early)
						time.Sleep(time.Duration(i%3) * 20 * time.Second)
						w.recovers(t, after, want)
					})
				})
			}
		}
	}
}

// changed is the world after a change that nothing went wrong with, and what was
// asked of Proxmox for it.
func changed(t *testing.T, before, after *spec.Spec) (inventory []string, requests []pvesim.Request) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, before)
		time.Sleep(time.Minute)
		w.sim.ForgetRequests()
		w.up(t, after)
		inventory, requests = w.inventory(), w.sim.Requests()[1:] // without that of Dial
	})
	return inventory, requests
}
