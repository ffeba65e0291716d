package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/fleet/lint"
)

// TestRenderedPassesOurLinter: what we write gives a reviewer nothing to say.
func TestRenderedPassesOurLinter(t *testing.T) {
	report, err := lint.Run(t.Context(), tree(t).FS(), lint.Options{})
	require.NoError(t, err)
	for _, f := range report.Findings {
		t.Errorf("%s:%d: %s: %s (%s)", f.File, f.Line, f.Rule, f.Message, f.Cure)
	}
	// Those of charts have no files of their own that Fleet would store.
	bundles, err := lint.ReadBundles(tree(t).FS(), lint.BundleScan{GitRepo: "homelab"})
	require.NoError(t, err)
	have, err := fleet.BundlesOfAll(parts()...)
	require.NoError(t, err)
	ours := map[string]bool{}
	for _, b := range have {
		ours[b.Name] = true
	}
	for _, b := range bundles {
		assert.True(t, ours[b.Name], "%s: Fleet finds our bundles, and none besides", b.Name)
	}
}
