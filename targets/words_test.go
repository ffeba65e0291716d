package targets

import (
	"maps"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Targets of a magefile that imports these may take words, as Mage allows, and functions that
// are none to Mage are none here.
func TestJudgeKnowsTargetsOfOnesOwn(t *testing.T) {
	known, err := targets(source)
	require.NoError(t, err)
	own, err := targets(fstest.MapFS{"magefile.go": {Data: []byte(`package main

// Say says it, some times.
func Say(ctx context.Context, what string, times int, loud *bool) error { return nil }

func Not(p []string) error { return nil }
`)}})
	require.NoError(t, err)
	assert.Len(t, own, 1)
	maps.Copy(known, own)
	for _, args := range [][]string{{"say", "cluster:up", "2"}, {"say", "hello", "2", "-loud"}, {"say", "hello", "2", "cluster:up", "-yes"}, {"cluster:up", "say", "a", "1"}} {
		_, err := refuse(args, known)
		assert.NoError(t, err, args)
	}
	for _, args := range [][]string{{"say", "hello", "2", "more"}, {"not"}, {"say", "hello", "2", "-quiet"}, {"cluster:up", "hello"}} {
		_, err := refuse(args, known)
		assert.ErrorContains(t, err, "nothing was done", args)
	}
}
