package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Answers are asked for again when something of ours may have changed them.
func TestWhatAChangeMakesStale(t *testing.T) {
	kept := []string{"/cluster/resources, live", "/nodes/pve1/qemu?", "/nodes/pve1/qemu/100/pending?", "/nodes/pve1/qemu/101/pending?", "/cluster/mapping/pci?check-node=pve1",
		"/nodes/pve1/storage/local/content?", "/nodes/pve1/status?", "/nodes?"}
	for path, want := range map[string][]int{
		"/nodes/pve1/qemu/100/config": {0, 1, 2}, "/nodes/pve1/qemu": {0, 1}, "/qemu": {0, 1}, "/cluster/mapping/pci/gpu": {4}, "/nodes/pve1/storage/local/upload": {5}, "/storage/": {5}, "/access/ticket": nil,
	} {
		var gs sharedGets
		for _, id := range kept {
			gs.end(gs.entry(id), 0, "answer")
		}
		gs.invalidate(path)
		var got []int
		for i, id := range kept {
			if _, fresh := gs.fresh(gs.entry(id)); !fresh {
				got = append(got, i)
			}
		}
		assert.Equal(t, want, got, path)
	}
}
