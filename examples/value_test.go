package examples_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	eighta100 "github.com/cps-gpu/homelab/examples/eight-a100"
)

// TestValueIsTheFile: the cluster of eight-a100 as a Go value is that of its file.
func TestValueIsTheFile(t *testing.T) {
	want, err := cluster.Load("eight-a100/cluster.yaml")
	require.NoError(t, err)
	got := eighta100.Spec()
	require.NoError(t, cluster.Complete(got))
	got.File, got.Dir = want.File, want.Dir
	require.Len(t, got.Warnings, len(want.Warnings))
	for i, w := range want.Warnings {
		assert.Equal(t, w.What, got.Warnings[i].What)
	}
	got.Warnings = want.Warnings
	wantText, err := json.MarshalIndent(want, "", " ")
	require.NoError(t, err)
	gotText, err := json.MarshalIndent(got, "", " ")
	require.NoError(t, err)
	assert.Equal(t, string(wantText), string(gotText))
}
