package session

import (
	"bytes"
	"context"
	"os"
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
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
	"github.com/cps-gpu/homelab/secret"
)

const heldSpec = `
name: lab1
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  server1: {role: server, address: 10.0.0.11}
`

// atDesk is a session of somebody, on a machine of their own.
func atDesk(t *testing.T, sim *pvesim.Sim) (*Session, *bytes.Buffer) {
	spec, err := cluster.Parse("cluster.yaml", []byte(heldSpec))
	require.NoError(t, err)
	id, value := sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
	require.NoError(t, err)
	c, err := cluster.New(spec, cluster.Backend{Dir: t.TempDir(), Proxmox: pve})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	var talk bytes.Buffer
	s := &Session{Console: console.New(true), Spec: spec, Cluster: c}
	s.Talk, s.Data = &talk, &talk
	return s, &talk
}

// slow is work that takes two minutes, once.
func slow(done *atomic.Bool, inside *atomic.Int32, t *testing.T) *converge.Graph {
	var g converge.Graph
	g.Add(&converge.Resource[bool]{
		ID:      "work",
		Observe: func(context.Context) (bool, error) { return done.Load(), nil },
		Diff: func(is bool) drift.Diff {
			if is {
				return nil
			}
			return drift.Diff{{Have: "nothing", Want: "work", Effect: drift.Create}}
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
		var said [2]*bytes.Buffer
		for i := range 2 {
			s, talk := atDesk(t, sim)
			said[i] = talk
			both.Go(func() {
				report, err := s.run(t.Context(), slow(&done, &inside, t))
				assert.NoError(t, err)
				changed.Add(int32(report.Count(converge.Changed)))
			})
		}
		both.Wait()
		assert.EqualValues(t, 1, changed.Load(), "the second finds it done")
		assert.Contains(t, said[0].String()+said[1].String(), " changes this cluster; waiting until that is over.")
		assert.Empty(t, sim.VMs(), "the lease is gone")

		s, talk := atDesk(t, sim)
		sim.ForgetRequests()
		_, err := s.run(t.Context(), slow(&done, &inside, t))
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
			for _, vm := range sim.VMs() { // as somebody would in the web interface
				id, value := sim.Token()
				pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
				if assert.NoError(t, err) {
					theirs, err := pve.ByID(t.Context(), vm.ID)
					assert.NoError(t, err)
					assert.NoError(t, pve.Remove(t.Context(), theirs))
				}
			}
		})
		_, err := s.run(t.Context(), slow(&done, &inside, t))
		require.ErrorIs(t, err, proxmox.ErrLeaseLost)
		require.ErrorContains(t, err, "has been destroyed")
		assert.False(t, done.Load())
	})
}

func TestProcesses(t *testing.T) {
	mine := thisProcess()
	require.NotEmpty(t, mine)
	assert.False(t, ended(mine), "this one lives")
	fields := strings.Fields(mine)
	require.Len(t, fields, 4)
	for change, want := range map[int]bool{0: false, 1: false, 3: true} { // another boot or container is not for us to judge
		other := append([]string(nil), fields...)
		other[change] = "1"
		assert.Equal(t, want, ended(strings.Join(other, " ")), other)
	}
	assert.False(t, ended(""), "who does not say")
	assert.False(t, ended("nonsense"))
	assert.Equal(t, mine, processOf(os.Getpid()))
}
