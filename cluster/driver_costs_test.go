package cluster

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/nvidia"
)

// A node whose driver was tried and does not load is not started again since a package of
// it may change by itself, which nobody was told; nor is any node for what costs nothing.
func TestWhatMayRestartANodeIsACost(t *testing.T) {
	want := nvidia.Recipe{Driver: nvidia.Driver{Branch: 580, Flavour: nvidia.Open}}
	packages := map[string]string{}
	for _, p := range want.Packages() {
		packages[p] = "580.1"
	}
	held := want.Holds()
	assert.NotEmpty(t, held)
	failed := []string{"NVRM: RmInitAdapter failed!"}
	for name, x := range map[string]struct {
		change func(*nvidia.DriverState)
		may    bool
	}{
		"installed, not loaded":              {func(*nvidia.DriverState) {}, true},
		"tried, in vain":                     {func(s *nvidia.DriverState) { s.Log = failed }, false},
		"tried, in vain, and no longer held": {func(s *nvidia.DriverState) { s.Log, s.Held = failed, nil }, false},
		"loaded, and no longer held":         {func(s *nvidia.DriverState) { s.Loaded, s.LoadedOpen, s.Held = "580.1", true, nil }, false},
		"a package is missing":               {func(s *nvidia.DriverState) { delete(s.Packages, want.Packages()[0]) }, true},
		"another one is loaded":              {func(s *nvidia.DriverState) { s.Loaded, s.LoadedOpen = "570.9", true }, true},
	} {
		s := nvidia.DriverState{Kernel: "6.8.0-85-generic", Packages: maps.Clone(packages), Held: held}
		x.change(&s)
		assert.Equal(t, x.may, driverState{s, want}.mayLoad(), name)
	}
}
