package cluster

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
)

// What a part costs that goes is said also where its API gives no answer.
func TestCostsOfAPartThatCannotBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, way := failing(t, failingFile)
		gone := leftovers{parts: []parts.Record{{Part: "old", Namespace: "old"}}}
		cost := c.costsOfLeftovers(t.Context(), gone, nil)
		require.Len(t, cost, 1)
		assert.Empty(t, cost[0].Holds, "nothing is in it")
		assert.Equal(t, "old: no longer in the file", cost[0].Machine+": "+cost[0].Reason)

		c.members.Reset() // another run
		way.On, way.At = true, 1
		cost = c.costsOfLeftovers(t.Context(), gone, nil)
		require.Len(t, cost, 1)
		require.Len(t, cost[0].Holds, 1)
		assert.True(t, strings.HasPrefix(cost[0].Holds[0].Text, parts.NotLooked) && strings.Contains(cost[0].Holds[0].Text, kubetest.Refusal), cost[0].Holds[0].Text)

		c.members.Reset()
		c.members.SetClient(nil, "")
		cost = c.costsOfLeftovers(t.Context(), gone, nil)
		require.Len(t, cost, 1)
		require.Len(t, cost[0].Holds, 1)
		assert.True(t, strings.HasPrefix(cost[0].Holds[0].Text, parts.NotLooked), cost[0].Holds[0].Text)
	})
}

// A password that is not there is no password.
func TestPasswordThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sim, _ := failing(t, failingFile)
		require.NoError(t, sim.Apply(context.Background(), []byte("{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: kube-system}, data: {k: aGk=, e: ''}}")))
		client, err := c.Kube(t.Context())
		require.NoError(t, err)
		got, err := Password{Namespace: "kube-system", Name: "s", Key: "k"}.Read(t.Context(), client)
		require.NoError(t, err)
		assert.Equal(t, "hi", got.Reveal())
		for _, key := range []string{"e", "other"} {
			_, err = Password{Namespace: "kube-system", Name: "s", Key: key}.Read(t.Context(), client)
			require.EqualError(t, err, "secret kube-system/s has no "+key)
		}
	})
}
