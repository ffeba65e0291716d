package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const one = `
name: one
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {storage: vmdata}
nodes:
  server1: {role: server, address: 10.0.0.11}
  gpu1: {address: 10.0.0.21, gpus: 1}
`

// The verbs of a node, as commands: what they say and how they end.
func TestNodeVerbs(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		yaml := one
		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		verb := func(o Options, do func(*Session, context.Context) error) (string, error) {
			err := w.do(yaml, o, do)
			return w.talk.String(), err
		}

		said, err := verb(Options{}, with(NodeFlags{Node: "gpu1"}, NodeDrain))
		require.NoError(t, err)
		assert.Contains(t, said, "gpu1 is drained and accepts no pods until go tool mage node:uncordon -node=gpu1.")
		said, err = verb(Options{}, with(NodeFlags{Node: "gpu1"}, NodeDrain))
		require.NoError(t, err)
		assert.Contains(t, said, "gpu1 is drained already.")
		said, err = verb(Options{}, with(NodeFlags{Node: "gpu1"}, NodeUncordon))
		require.NoError(t, err)
		assert.Contains(t, said, "gpu1 accepts pods again.")

		_, err = verb(Options{}, with(NodeFlags{Node: "gpu7"}, NodeDrain))
		assert.Equal(t, invalid, code(err))
		_, err = verb(Options{}, with(NodeCycleFlags{NodeFlags: NodeFlags{Node: "gpu1"}}, NodeCycle))
		assert.Equal(t, refused, code(err), "nobody is here to ask")
		_, err = verb(Options{}, with(NodeReplaceFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "server1"}}, NodeReplace))
		assert.Equal(t, refused, code(err), "the only server")

		said, err = verb(Options{}, with(NodeCycleFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "gpu1"}}, NodeCycle))
		require.NoError(t, err)
		assert.Contains(t, said, "gpu1 was off and is back.")
		time.Sleep(time.Minute)
		said, err = verb(Options{}, with(NodeReplaceFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "gpu1"}}, NodeReplace))
		require.NoError(t, err)
		assert.Contains(t, said, "gpu1 is a new machine.")
		require.NoError(t, w.do(yaml, Options{}, Plan), "and all is up to date")
	})
}
