package decode

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

func TestCPUList(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-2": {0, 1, 2}, "0-1,4": {0, 1, 4}} {
		got, ok := CPUList(text, ",")
		assert.True(t, ok)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-", "a", "2-1", "0,", "1-", "-1", "0-5000", "0;1"} {
		_, ok := CPUList(text, ",")
		assert.False(t, ok, text)
	}
}

// A value of a wrong kind is one problem, and nobody reads it further.
func TestKinds(t *testing.T) {
	kinds := []yamlnode.Kind{yamlnode.Map, yamlnode.List, yamlnode.Text, yamlnode.Number, yamlnode.Bool}
	for _, name := range append(slices.Collect(maps.Keys(forms)), "name") {
		for _, want := range kinds {
			for _, have := range kinds {
				c := NewChecker("f")
				got := (&decoder{Checker: c}).is(&yamlnode.Node{Kind: have}, want, name)
				assert.Equal(t, want == have, got, "%s: %s for %s", name, have, want)
				assert.Equal(t, want == have, c.Err() == nil, name)
			}
		}
	}
}

func FuzzCPUList(f *testing.F) {
	f.Add("0-7,16-23")
	f.Add("9-,")
	f.Fuzz(func(t *testing.T, s string) {
		all, ok := CPUList(s, ",")
		if ok != (len(all) > 0) {
			t.Errorf("%q: %v of %d CPUs", s, ok, len(all))
		}
	})
}
