package session

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const heldSpec = `
name: lab1
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  server1: {role: server, address: 10.0.0.11}
`

const threeServers = `
name: three
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1, vip: 10.0.0.100}
defaults: {storage: vmdata, role: server, cores: 4, memory: 8GiB}
nodes:
  cp1: {address: 10.0.0.11}
  cp2: {address: 10.0.0.12}
  cp3: {address: 10.0.0.13}
`

// stop switches a machine off, as somebody else's run does.
func (w *site) stop(name string) {
	w.t.Helper()
	id, value := w.sim.Token()
	pve, err := proxmox.Dial(w.t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: w.sim.Client()})
	require.NoError(w.t, err)
	for _, vm := range w.sim.VMs() {
		if vm.Name == name {
			found, err := pve.VMs.GetByID(w.t.Context(), vm.ID)
			require.NoError(w.t, err)
			require.NoError(w.t, pve.VMs.Stop(w.t.Context(), found))
		}
	}
}

// atDesk is a session of somebody, on a machine of their own.
func atDesk(t *testing.T, sim *pvesim.Sim) (*Session, *lockedBuffer) {
	spec, err := cluster.Parse("cluster.yaml", []byte(heldSpec))
	require.NoError(t, err)
	id, value := sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
	require.NoError(t, err)
	c, err := cluster.New(spec, cluster.Backend{Dir: t.TempDir(), Proxmox: pve})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	var talk lockedBuffer
	s := &Session{Console: console.New(true), Spec: spec, Cluster: c}
	s.Talk, s.Data = &talk, &talk
	return s, &talk
}

// lockedBuffer is what two goroutines print.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// slow is work that takes two minutes, once.
func slow(done *atomic.Bool, inside *atomic.Int32, t *testing.T) *converge.Graph {
	var g converge.Graph
	g.Add(&converge.Resource[bool]{
		ID:      "work",
		Observe: func(context.Context) (bool, error) { return done.Load(), nil },
		Diff: func(is bool) converge.Diff {
			if is {
				return nil
			}
			return converge.Diff{{Have: "nothing", Want: "work", Effect: converge.Create}}
		},
		Apply: func(ctx context.Context, _ bool) error {
			assert.EqualValues(t, 1, inside.Add(1), "two at a time")
			defer inside.Add(-1)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Minute):
			}
			done.Store(true)
			return nil
		},
	})
	return &g
}

// TestOneRunAtATime: a second run waits, says for whom, looks again and finds the work done.
func TestOneRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
		defer sim.Close()
		var done atomic.Bool
		var inside atomic.Int32
		var both sync.WaitGroup
		var changed atomic.Int32
		var said [2]*lockedBuffer
		for i := range 2 {
			s, talk := atDesk(t, sim)
			said[i] = talk
			both.Go(func() {
				report, err := s.run(t.Context(), slow(&done, &inside, t), &converge.Agreement{}, false, false)
				assert.NoError(t, err)
				changed.Add(int32(report.Count(converge.Changed)))
			})
		}
		both.Wait()
		assert.EqualValues(t, 1, changed.Load(), "the second finds it done")
		assert.Contains(t, said[0].String()+said[1].String(), " changes cluster lab1; waiting until that is over.")
		assert.Empty(t, sim.VMs(), "the lease is gone")

		s, talk := atDesk(t, sim)
		sim.ForgetRequests()
		_, err := s.run(t.Context(), slow(&done, &inside, t), &converge.Agreement{}, false, false)
		require.NoError(t, err)
		assert.Empty(t, sim.Requests(), "who has nothing to do needs no lease")
		assert.NotContains(t, talk.String(), "warning")
	})
}

// TestALostLeaseEndsTheRun: what another has taken over is not worked on any more.
func TestALostLeaseEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
		defer sim.Close()
		var done atomic.Bool
		var inside atomic.Int32
		s, _ := atDesk(t, sim)
		time.AfterFunc(30*time.Second, func() {
			id, value := sim.Token()
			pve, err := proxmox.Dial(t.Context(), proxmox.Config{
				Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client(),
			})
			if !assert.NoError(t, err) {
				return
			}
			for _, vm := range sim.VMs() {
				theirs, err := pve.VMs.GetByID(t.Context(), vm.ID)
				assert.NoError(t, err)
				assert.ErrorContains(t, pve.VMs.Remove(t.Context(), theirs), "it is protected in Proxmox", "not by accident")
			}
			found := pve.Lease("lab1", "pve1") // as somebody would in the web interface, who takes that off
			seen, err := found.Read(t.Context())
			assert.NoError(t, err)
			assert.NoError(t, found.Remove(t.Context(), seen))
		})
		_, err := s.run(t.Context(), slow(&done, &inside, t), &converge.Agreement{}, false, false)
		require.ErrorIs(t, err, converge.ErrLeaseLost)
		require.ErrorContains(t, err, "has been destroyed")
		assert.False(t, done.Load())
	})
}

// theirs takes the lease as another run does, on another machine.
func (w *site) theirs(name string) *converge.Lease {
	w.t.Helper()
	id, value := w.sim.Token()
	pve, err := proxmox.Dial(w.t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: w.sim.Client()})
	require.NoError(w.t, err)
	_, l, err := converge.AcquireLease(w.t.Context(), pve.Lease(name, "pve1"), converge.LeaseClaim{What: "cluster " + name, Holder: "teacher@desk", Purpose: "cluster:up"}, nil)
	require.NoError(w.t, err)
	return l
}

// TestVerbsDecideWhenTheyMay: what a verb saw before it waited may not hold afterwards.
func TestVerbsDecideWhenTheyMay(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(threeServers, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		cycle := func() error {
			return w.do(threeServers, Options{}, with(NodeCycleFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "cp1"}}, NodeCycle))
		}
		vms := len(w.sim.VMs())
		running := func(name string) bool {
			return slices.ContainsFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return vm.Name == name && vm.Running })
		}

		other := w.theirs("three")
		done := make(chan error, 1)
		go func() { done <- cycle() }()
		time.Sleep(20 * time.Second)
		w.stop("cp2")
		time.Sleep(time.Minute)
		require.NoError(t, other.Release(t.Context()))
		err := <-done
		assert.Equal(t, refused, code(err))
		require.ErrorContains(t, err, "without it 1 of 3 servers would be left")
		assert.True(t, running("cp1"))

		// And down takes what another run has made meanwhile.
		other = w.theirs("three")
		go func() {
			done <- w.do(threeServers, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down))
		}()
		time.Sleep(20 * time.Second)
		w.stop("cp3")
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, <-done)
		assert.Len(t, w.sim.VMs(), vms-4, "three servers and their template")
	})
}

// TestWhoDoesNotWait: with -nowait a command ends where another run is at work, says who,
// and has changed nothing.
func TestWhoDoesNotWait(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		other := w.theirs("one")
		w.sim.ForgetRequests()
		now := ChangeFlags{NoWait: true, Yes: true}
		err := w.do(one, Options{}, with(UpFlags{ChangeFlags: now}, Up))
		assert.Equal(t, refused, code(err))
		require.ErrorContains(t, err, "nothing was changed: the right to change cluster one: teacher@desk since ")
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, w.do(one, Options{}, with(UpFlags{ChangeFlags: ChangeFlags{NoWait: true}}, Up)))
		time.Sleep(time.Minute)
		other = w.theirs("one")
		gpu1 := NodeFlags{ChangeFlags: now, Node: "gpu1"}
		for name, do := range map[string]func(*Session, context.Context) error{
			"down":    with(DownFlags{ChangeFlags: now}, Down),
			"drain":   with(gpu1, NodeDrain),
			"cycle":   with(NodeCycleFlags{NodeFlags: gpu1}, NodeCycle),
			"replace": with(NodeReplaceFlags{NodeFlags: gpu1}, NodeReplace),
		} {
			err := w.do(one, Options{}, do)
			assert.Equal(t, refused, code(err), name)
			require.ErrorContains(t, err, "teacher@desk since ", name)
		}
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, w.do(one, Options{}, Plan), "nothing was changed")
	})
}

// TestHostsAreChosenAgain: nodes whose host the file leaves open may belong elsewhere by
// the time this run alone changes the cluster.
func TestHostsAreChosenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.TwoHosts(), pvesim.Options{})
		defer sim.Close()
		s, _ := atDesk(t, sim)
		open, err := cluster.Parse("cluster.yaml", []byte(strings.NewReplacer("host: pve1", "hosts: {pve1: {}, pve2: {}}", "role: server,", "role: server, host: auto,").Replace(heldSpec)))
		require.NoError(t, err)
		s.unplaced = open
		s.Spec, err = placement.Place(t.Context(), open, s.Cluster.Proxmox)
		require.NoError(t, err)
		s.Cluster, err = cluster.New(s.Spec, cluster.Backend{Dir: t.TempDir(), Proxmox: s.Cluster.Proxmox})
		require.NoError(t, err)
		defer s.Cluster.Close()
		require.NoError(t, s.checkPlacement(t.Context()))
		var done atomic.Bool
		var inside atomic.Int32
		at := s.Spec.Nodes[0].Host
		for i := range 2 {
			sim.AddVM(pvesim.VM{ID: 300 + i, Node: at, Name: "greedy", Running: true, Config: map[string]string{"memory": "250000"}})
		}
		_, err = s.run(t.Context(), slow(&done, &inside, t), &converge.Agreement{}, false, false)
		require.ErrorContains(t, err, "nothing was changed: another run has taken room since this one started: server1 now belongs on ")
		assert.False(t, done.Load())
	})
}

// TestANodeThatIsGoneBelongsNowhere: a trial that has removed a node does not ask where it
// would belong.
func TestANodeThatIsGoneBelongsNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.TwoHosts(), pvesim.Options{})
		defer sim.Close()
		s, _ := atDesk(t, sim)
		const worker = "  worker1: {role: agent, host: auto, address: 10.0.0.21}\n"
		text := strings.Replace(heldSpec, "host: pve1", "hosts: {pve1: {}, pve2: {}}", 1)
		text = strings.Replace(text, "role: server,", "role: server, host: pve1,", 1)
		open, err := cluster.Parse("cluster.yaml", []byte(text+worker))
		require.NoError(t, err)
		s.unplaced = open
		s.Spec, err = placement.Place(t.Context(), open, s.Cluster.Proxmox)
		require.NoError(t, err)
		rest, err := cluster.Parse("cluster.yaml", []byte(text))
		require.NoError(t, err)
		s.Cluster, err = cluster.New(rest, cluster.Backend{Dir: t.TempDir(), Proxmox: s.Cluster.Proxmox})
		require.NoError(t, err)
		defer s.Cluster.Close()
		was, _ := s.Spec.Node("worker1")
		for i := range 2 {
			sim.AddVM(pvesim.VM{ID: 300 + i, Node: was.Host, Name: "greedy", Running: true, Config: map[string]string{"memory": "250000"}})
		}
		time.Sleep(time.Minute)
		require.NoError(t, s.checkPlacement(t.Context()))
	})
}

// TestMoreThanWasShown: what nobody has agreed to is found, whatever the notes say.
func TestMoreThanWasShown(t *testing.T) {
	item := func(step string, v converge.Verdict, d ...converge.Field) converge.Item {
		return converge.Item{Step: step, Verdict: v, Diff: d}
	}
	gone := func(what, note string) converge.Field {
		return converge.Field{Have: what, Effect: converge.Remove, Note: note}
	}
	shown := &converge.Plan{Items: []converge.Item{
		item("vm/a", converge.Change, gone("VM 101", "seen")), item("rest", converge.Change, gone("one", ""), gone("two", "")),
		item("later", converge.Deferred), item("clean", converge.Clean),
	}}
	now := &converge.Plan{Items: []converge.Item{
		item("vm/a", converge.Change, gone("VM 101", "")), item("rest", converge.Change, gone("two", ""), gone("three", "")),
		item("later", converge.Change, gone("x", "")), item("clean", converge.Change, gone("y", "")), item("vm/b", converge.Change, gone("VM 102", "")),
	}}
	assert.Empty(t, newChanges(shown, shown))
	more := newChanges(now, shown)
	require.Len(t, more, 3)
	for i, want := range []string{"rest: three", "clean: y", "vm/b: VM 102"} {
		assert.Contains(t, more[i], want)
	}
}

func TestProcesses(t *testing.T) {
	mine := processID()
	require.NotEmpty(t, mine)
	assert.False(t, hasEnded(mine), "this one lives")
	fields := strings.Fields(mine)
	require.Len(t, fields, 4)
	for change, want := range map[int]bool{0: false, 1: false, 3: true} { // another boot or container is not for us to judge
		other := append([]string(nil), fields...)
		other[change] = "1"
		assert.Equal(t, want, hasEnded(strings.Join(other, " ")), other)
	}
	assert.False(t, hasEnded(""), "who does not say")
	assert.False(t, hasEnded("nonsense"))
	assert.Equal(t, mine, processOf(os.Getpid()))
}
