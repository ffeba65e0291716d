package jupyterhub

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestApartIsWhatHappens goes the way of a person with a home of local-path: a first
// server on any node that takes it, and then one of another profile, on that node alone.
func TestApartIsWhatHappens(t *testing.T) {
	apart, together := 0, 0
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 3))
		first, pools := someWorld(random)
		second, _ := someWorld(random)
		first.Name, second.Name = "first", "second"
		second.Pool = ""
		h := Hub{Hub: spec.Hub{Profiles: []spec.HubProfile{first, second}}, Pools: pools, HomesStay: true}
		var stuck []string
		for i, in := range pools {
			for _, n := range in.Nodes {
				only := slices.Clone(pools)
				for k := range only {
					only[k].Nodes = nil
				}
				only[i].Nodes = []Node{n}
				if schedule(first, only) > 0 && schedule(second, only) == 0 {
					stuck = append(stuck, n.Name)
				}
			}
		}
		if schedule(second, pools) == 0 {
			stuck = nil // nobody starts it anyway, which is said of it alone
		}
		var said []string
		for _, a := range h.Fit().Apart {
			if a.Profile == "first" {
				require.Equal(t, "second", a.Other)
				said = a.Nodes
			}
		}
		require.Equal(t, stuck, said, "seed %d", seed)
		if len(stuck) > 0 {
			apart++
		} else {
			together++
		}
		h.HomesStay = false
		require.Empty(t, h.Fit().Apart)
		h.HomesStay, h.Home.Claim = true, "homes"
		require.Empty(t, h.Fit().Apart, "one claim for everybody is where it is")
	}
	require.Greater(t, apart, 100)
	require.Greater(t, together, 100)
}

func TestProfilesOfStrangers(t *testing.T) {
	h := Hub{Pools: a100s(), HomesStay: true, Hub: spec.Hub{Profiles: []spec.HubProfile{
		{Name: "cpu", Memory: spec.Memory{Limit: GiB}, Groups: []string{"staff"}},
		{Name: "gpu", Memory: spec.Memory{Limit: GiB}, GPUs: 1, Groups: []string{"lab"}},
	}}}
	for i := range h.Pools {
		h.Pools[i].Taints = nil
	}
	require.Empty(t, h.Fit().Apart, "nobody starts both")
	h.Profiles[1].Groups = nil
	require.NotEmpty(t, h.Fit().Apart)
	require.Equal(t, "a user who starts a first can get a home on x, y, z or one of 2 more, and can then never start b",
		HomeConflict{"a", "b", []string{"x", "y", "z", "v", "w"}}.String())
}

// TestAHomeElsewhere: nothing has to be waited for where a home is on the wrong node.
func TestAHomeElsewhere(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate":       staysWait,
		"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had volume node affinity conflict. preemption: 0/2 nodes are available: 2 no vic": staysWait,
		"0/2 nodes are available: 2 Insufficient nvidia.com/gpu.": 3 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, giveUp := context.WithCancelCause(t.Context())
			s := &starting{profile: "gpu", wait: 3 * time.Minute, giveUp: giveUp}
			begin := time.Now()
			s.hear(ctx, message)
			<-ctx.Done()
			require.Equal(t, want, time.Since(begin))
			if want == staysWait {
				require.ErrorIs(t, context.Cause(ctx), errStays)
			} else {
				require.ErrorIs(t, context.Cause(ctx), errNoNode)
			}
		})
	}
}
